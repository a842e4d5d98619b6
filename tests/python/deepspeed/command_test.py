"""python -m zf_runtime.deepspeed: wrong command lines, and scripts without DeepSpeed. Needs no package. Tests
deepspeed/__init__.py, deepspeed/__main__.py."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import support

SCRIPT = "import sys; print(__name__, sys.argv[1:])\n"


class Command(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "train.py").write_text(SCRIPT)

    def run_command(self, *words: str, code=0, **variables: str) -> subprocess.CompletedProcess:
        ended = subprocess.run([sys.executable, "-B", "-m", "zf_runtime.deepspeed", *words], cwd=self.folder,
                               env=os.environ | {"PYTHONPATH": str(support.PACKAGE)} | variables, text=True,
                               capture_output=True, timeout=60, check=False)
        self.assertEqual(ended.returncode, code, ended.stderr)
        return ended

    def test_wrong_command_lines_are_named_and_end_with_2(self):
        for words, reason in ((["--lat", "train.py"], "unknown option '--lat'"), ([], "no script is named"),
                              (["--late"], "no script is named"), (["-m"], "no module is named"),
                              (["--state", "split", "train.py"], "--state is 'split'; give fp32 or bf16"),
                              (["--state"], "--state is ''; give fp32 or bf16"),
                              (["--state=bf16"], "no script is named"),
                              (["--late", "--speculate", "train.py"], "--speculate needs --exact"),
                              (["--speculate", "--exact"], "no script is named"),
                              (["--state", "bf16", "-m"], "no module is named"),
                              (["--keep", "run7", "--exact"], "no script is named"),
                              (["--keep=run7", "--late", "train.py"], "--keep and --late exclude each other"),
                              (["absent.py"], "there is no script 'absent.py'")):
            with self.subTest(words=words):
                lines = self.run_command(*words, code=2).stderr.splitlines()
                self.assertEqual(lines[0], f"zf_runtime.deepspeed: {reason}")
                self.assertTrue(lines[1].startswith("usage: "))

    def test_help_goes_to_stdout_and_names_the_commands_of_the_page(self):
        said = self.run_command("--help").stdout
        self.assertTrue(said.startswith("usage: python -m zf_runtime.deepspeed"))
        page = (support.SOURCE / "docs/deepspeed.md").read_text()
        commands = [line.split("$ ", 1)[1].split("   #")[0] for line in page.splitlines() if line.startswith("B  $ ")]
        self.assertEqual(len(commands), 3)
        for command in commands:
            self.assertIn(command, said)
        self.assertIn("needs a plan", said)

    def test_a_script_without_deepspeed_runs_and_that_is_said(self):
        for words in (["train.py"], ["-m", "train"]):
            with self.subTest(words=words):
                ended = self.run_command("--late", "--local_rank=3", *words, "--late", "x")
                self.assertEqual(ended.stdout, "__main__ ['--local_rank=3', '--late', 'x']\n")
                self.assertEqual(ended.stderr, f"zf_runtime.deepspeed: {words[-1]} never imported deepspeed: the "
                                               "native optimizer was not used\n")

    def test_an_exit_code_is_the_scripts(self):
        (self.folder / "train.py").write_text("raise SystemExit(7)")
        self.run_command("train.py", code=7)

    def test_a_script_that_looks_for_deepspeed_before_it_imports_it(self):
        """As accelerate does. The DeepSpeed of this test is empty, so install() says what it misses first."""
        (self.folder / "deepspeed.py").touch()
        (self.folder / "train.py").write_text("import importlib.util; importlib.util.find_spec('deepspeed')\n"
                                              "import deepspeed\n")
        said = self.run_command("train.py", code=1).stderr
        self.assertIn("DeepSpeed cannot be imported: No module named 'deepspeed.ops'", said)

    def test_install_where_no_deepspeed_is(self):
        (self.folder / "deepspeed.py").write_text("raise ImportError('not here')")
        (self.folder / "train.py").write_text("import zf_runtime.deepspeed; zf_runtime.deepspeed.install()")
        ended = self.run_command("train.py", code=1)
        self.assertIn("DeepSpeed cannot be imported: not here", ended.stderr.splitlines()[-1])

    def test_each_word_for_off_leaves_deepspeed_as_it_is(self):
        (self.folder / "train.py").write_text("import zf_runtime.deepspeed; zf_runtime.deepspeed.install()")
        (self.folder / "deepspeed.py").write_text("raise ImportError('not here')")
        for word in ("off", "0", "no", "false"):
            with self.subTest(word):
                self.assertNotIn("not here", self.run_command("train.py", ZF_TUNE=word).stderr)
        self.assertIn("not here", self.run_command("train.py", code=1, ZF_TUNE="on").stderr)


if __name__ == "__main__":
    unittest.main()
