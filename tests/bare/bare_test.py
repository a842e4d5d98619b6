"""The first command on a minimal Debian 13, and what it says where something is missing."""

import re
import subprocess

from chroot import AS_USER, PLAN, BareTest, Chroot

APT = ("usr/bin/apt-get", "usr/bin/dpkg-query", "usr/bin/dpkg")
LIBRARIES = ("usr/*/**/cmake/fmt", "usr/*/**/cmake/cxxopts", "usr/lib/*/pkgconfig/hwloc.pc")


class Bare(BareTest):
    def system(self) -> Chroot:
        """Returns a Debian 13 on which the first command has ended well."""
        system = Chroot("trixie")
        system.lend_ccache()
        self.assert_done(system.run(PLAN, timeout=1500))
        self.assert_plan(system)
        return system

    def assert_list(self, result: subprocess.CompletedProcess, heading: str) -> None:
        """Asserts that the script ended with 1, and that one list is the last thing that it said."""
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertEqual(result.stderr.count(heading), 1, result.stderr)
        self.assertTrue(result.stderr.startswith(f"tune: {heading}\n  "), result.stderr)

    def test_debian_13_builds_and_plans(self):
        """A newer compiler may warn: warnings are no errors in the build of a user."""
        system = self.system()
        self.assertIn("ZF_WERROR:BOOL=OFF\n", (system.project / "build/CMakeCache.txt").read_text())

    def test_a_user_without_sudo_gets_one_list(self):
        system = self.system()
        self.assert_done(system.run("apt-get remove --yes libcxxopts-dev libtbb-dev", timeout=300))
        result = system.run(PLAN, timeout=60, inside=AS_USER)
        self.assert_list(result, "there is neither root nor sudo to install packages, and these are missing:")
        self.assertIn("\n  libcxxopts-dev       command-line options\n"
                      "  libtbb-dev           the synthetic training side\n"
                      "To install them: sudo apt-get install libcxxopts-dev libtbb-dev\n", result.stderr)
        self.system()  # root gets them back

    def test_a_package_that_apt_does_not_know_stops_nothing(self):
        system = self.system()
        with (system.project / "scripts/packages.txt").open("a") as packages:
            packages.write("build  zf-no-such-package|libtbb-dev  is an alternative\n"
                           "build  zf-no-other-package  is only an example\n")
        result = system.run(PLAN, timeout=300)
        self.assert_done(result)
        self.assertIn("apt could not install:\n  zf-no-other-package  is only an example\n", result.stderr)
        self.assertNotIn("zf-no-such-package", result.stderr)

    def test_without_apt_it_builds_with_libraries_under_opt(self):
        system = self.system()
        self.assert_done(system.run(
            "mv build away && rm -rf /opt/* && mkdir -p /opt/hwloc && cp /usr/lib/*/pkgconfig/hwloc.pc /opt/hwloc/ && "
            "cd / && cp -r --parents usr/include/fmt usr/lib/*/cmake/fmt usr/lib/*/libfmt.so* /opt/", timeout=60))
        try:
            with system.hidden(*APT, "usr/include/fmt", *LIBRARIES[::2]):
                result = system.run("export CMAKE_PREFIX_PATH=/opt/usr PKG_CONFIG_PATH=/opt/hwloc; "
                                    "source scripts/lib.sh; need_packages build; configure release; "
                                    "build build zf_base; grep fmt_DIR build/CMakeCache.txt", timeout=600)
        finally:
            system.run("rm -rf build && mv away build", timeout=60)
        self.assert_done(result)
        self.assertRegex(result.stdout, "fmt_DIR:PATH=/opt/usr/lib/.*/cmake/fmt\n")

    def test_without_apt_it_builds_with_what_is_there(self):
        system = self.system()
        system.give_to_user()
        with system.hidden(*APT):
            self.assert_done(system.run(PLAN, timeout=900, inside=AS_USER))
        self.assert_plan(system)

    def test_without_apt_one_list_says_which_programs_are_missing(self):
        system = self.system()
        with system.hidden(*APT, "usr/bin/cmake", "usr/bin/ninja", "usr/bin/c++", "usr/bin/g++"):
            result = system.run(PLAN, timeout=60)
        self.assert_list(result, "missing:")
        self.assertEqual(re.findall(r"(?m)^  (c\+\+|cmake|ninja)(?: 3.*)?: \S", result.stderr),
                         ["c++", "cmake", "ninja"])
        self.assertRegex(result.stderr, r"(?m)^  libhwloc-dev +reads the machine")

    def test_without_apt_one_list_says_which_libraries_are_missing(self):
        system = self.system()
        with system.hidden(*APT, *LIBRARIES):
            result = system.run(f"rm -f build/CMakeCache.txt; {PLAN}", timeout=300)
        self.assert_list(result, "missing:")
        self.assertEqual(re.findall(r"(?m)^  (.+) \(Debian: (\S+)\): \S", result.stderr),
                         [("hwloc", "libhwloc-dev"), ("fmt", "libfmt-dev"), ("cxxopts 3.1", "libcxxopts-dev")])

    def test_an_older_cmake_names_pip(self):
        """A newer one that stands later in PATH is taken."""
        system = self.system()
        old, new = system.root / "usr/local/bin/cmake", system.root / "opt/new/cmake"
        old.write_text("#!/bin/sh\necho cmake version 3.22.1\n")
        new.parent.mkdir(exist_ok=True)
        new.write_text("#!/bin/sh\necho cmake version 3.30.0\n")
        for program in (old, new):
            program.chmod(0o755)
        try:
            with system.hidden("usr/bin/cmake", *APT):
                result = system.run(PLAN, timeout=60)
                found = system.run("PATH=/usr/local/bin:/opt/new:$PATH; source scripts/lib.sh; cmake_program",
                                   timeout=60)
        finally:
            old.unlink()
        self.assert_list(result, "missing:")
        self.assertIn("  cmake 3.25 or newer: configures the build (also: pip install cmake)\n", result.stderr)
        self.assertEqual(found.stdout, "/opt/new/cmake\n")
