"""scripts/headers_alone.py finds a header that needs another before it, also where it compiles several at a time."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from zf_cli import SOURCE

# Room b may use room a, and not the other way round. All are in one chain, since their includes are the same.
WHOLE = {
    "runtime/a/one.hpp": "#pragma once\n#include <cstddef>\nstruct One {\n  std::size_t n;\n};\n",
    "runtime/b/two.hpp": '#pragma once\n#include <cstddef>\n#include "a/one.hpp"\nstruct Two {\n  One one;\n};\n',
    "runtime/b/three.hpp": "#pragma once\n#include <cstddef>\nstruct Three {\n  std::size_t n;\n};\n",
}


class Headers(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())).resolve()
        (self.folder / "scripts").mkdir()
        for name in ("headers_alone.py", "known_clean.py", "tidy.py"):
            shutil.copy(SOURCE / "scripts" / name, self.folder / "scripts")

    def look(self, **changed: str) -> tuple[int, str]:
        """Returns the exit code, and what was said of the headers of WHOLE with these bodies."""
        commands = []
        for name, text in WHOLE.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(changed.get(path.stem, text))
            visible = "" if path.parent.name == "a" else f"-I{self.folder}/runtime"
            commands.append({"file": str(path.with_suffix(".cpp")), "command": f"c++ -std=c++20 {visible} -c it.cpp"})
        build = self.folder / "build"
        build.mkdir(exist_ok=True)
        (build / "compile_commands.json").write_text(json.dumps(commands))
        (build / "CMakeCache.txt").write_text("CMAKE_C_COMPILER:STRING=cc\nCMAKE_CXX_COMPILER:STRING=c++\n")
        done = subprocess.run([sys.executable, str(self.folder / "scripts/headers_alone.py"), str(build)],
                              capture_output=True, text=True, timeout=50, check=False,
                              env=os.environ | {"XDG_CACHE_HOME": str(self.folder / "cache")})
        return done.returncode, done.stderr

    def assert_alone(self, name: str, said: str):
        """Asserts that this header alone is named."""
        self.assertIn(f"/{name}.hpp: does not compile alone", said)
        self.assertEqual(said.count("does not compile alone"), 1, said)

    def test_whole_ones_are_good(self):
        self.assertEqual(self.look(), (0, ""))

    def test_a_name_of_another_header_is_not_lent(self):
        code, said = self.look(three="#pragma once\n#include <cstddef>\nstruct Three {\n  One one;\n};\n")
        self.assertEqual(code, 1)
        self.assert_alone("three", said)

    def test_a_type_is_not_lent_however_it_is_declared(self):
        for one in ("struct Base {};\nclass One : public Base {};", "struct alignas(64) One {};",
                    "enum class One : int { zero };", "template <class T>\nstruct Many {};\nusing One = Many<int>;",
                    "struct One {\n};", "union One {\n  int n;\n};"):
            with self.subTest(one):
                code, said = self.look(one=f"#pragma once\n#include <cstddef>\n{one}\n",
                                       three="#pragma once\n#include <cstddef>\nOne three();\n")
                self.assertEqual(code, 1)
                self.assert_alone("three", said)

    def test_a_name_of_a_public_header_is_not_lent(self):
        (self.folder / "runtime/include").mkdir(parents=True)
        (self.folder / "runtime/include/public.h").write_text("#pragma once\nstruct Public {\n  int n;\n};\n")
        one = '#pragma once\n#include <cstddef>\n#include "../include/public.h"\nusing One = Public;\n'
        code, said = self.look(one=one, three="#pragma once\n#include <cstddef>\nPublic three();\n")
        self.assertEqual(code, 1)
        self.assert_alone("three", said)

    def test_an_include_of_another_header_is_not_lent(self):
        code, said = self.look(three="#pragma once\n#include <cctype>\nstruct Three {\n  std::byte n;\n};\n")
        self.assertEqual(code, 1)
        self.assert_alone("three", said)

    def test_a_fault_in_a_chain_is_of_the_header_that_has_it(self):
        code, said = self.look(two='#pragma once\n#include <cstddef>\n#include "a/one.hpp"\nFour two();\n')
        self.assertEqual(code, 1)
        self.assert_alone("two", said)

    def test_a_header_of_a_room_that_may_not_be_used_is_named(self):
        code, said = self.look(one='#pragma once\n#include "b/three.hpp"\nThree one();\n')
        self.assertEqual(code, 1)
        self.assertIn('a/one.hpp: "b/three.hpp" is in none of its include paths\n', said)

    def test_two_headers_with_one_name_do_not_go_together(self):
        code, said = self.look(three="#pragma once\nstruct Two {};\n")
        self.assertEqual(code, 1)
        self.assertTrue(said.startswith("the headers do not compile together\n"), said)
        self.assertNotIn("does not compile alone", said)

    def test_what_compiled_counts_until_a_header_that_it_includes_changes(self):
        self.assertEqual(self.look(), (0, ""))
        code, said = self.look(one="#pragma once\n#include <cstddef>\nclass One;\n")
        self.assertEqual(code, 1)
        self.assert_alone("two", said)
        self.assertEqual(self.look(one="#pragma once\n#include <cstddef>\nclass One;\n"), (code, said))
        self.assertEqual(self.look(), (0, ""))
