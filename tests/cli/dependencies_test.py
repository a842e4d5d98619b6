"""What CMake says where a library of the build or of the tests is missing: one list that names every package."""

import pathlib
import re
import subprocess
import tempfile
import unittest

from zf_cli import SOURCE

# A project that only looks for what the build needs. It compiles nothing, so it has no real Threads.
PROJECT = f"""
cmake_minimum_required(VERSION 3.25)
project(tiny LANGUAGES NONE)
set(PROJECT_SOURCE_DIR {SOURCE})
list(APPEND CMAKE_MODULE_PATH ${{CMAKE_CURRENT_SOURCE_DIR}})
include({SOURCE}/scripts/dependencies.cmake)
"""
FOUND = "set(${CMAKE_FIND_PACKAGE_NAME}_FOUND TRUE)\n"
LIBRARIES = ("PkgConfig", "nlohmann_json", "fmt", "cxxopts", "TBB", "ZLIB", "GTest", "benchmark")


class Missing(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.folder / "CMakeLists.txt").write_text(PROJECT)
        (self.folder / "FindThreads.cmake").write_text(FOUND)

    def missing(self, *options: str) -> list[str]:
        """Returns the Debian packages that CMake lists. It stops there."""
        done = subprocess.run(["/usr/bin/env", "cmake", "-G", "Ninja", "-S", self.folder, "-B", self.folder / "build",
                               "-DZF_TESTS=ON", *options], capture_output=True, text=True, timeout=50, check=False)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        listed = (self.folder / "build/missing.txt").read_text()
        return re.findall(r"(?m)^  .+ \(Debian: (\S+)\): \S", listed)

    def test_googletest_without_its_matchers_names_gmock(self):
        """As Debian's libgtest-dev is without libgmock-dev."""
        (self.folder / "GTestConfig.cmake").write_text("add_library(GTest::gtest INTERFACE IMPORTED)\n")
        missing = self.missing(f"-DGTest_DIR={self.folder}")
        self.assertIn("libgmock-dev", missing)
        self.assertNotIn("libgtest-dev", missing)

    def test_without_any_library_each_package_is_named(self):
        listed = (SOURCE / "scripts/packages.txt").read_text()
        libraries = re.findall(r"(?m)^(?:build|test) +(pkg-config|\S+-dev) ", listed)
        self.assertEqual(sorted(self.missing(*(f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in LIBRARIES))),
                         sorted(libraries))


if __name__ == "__main__":
    unittest.main()
