"""The first command on a minimal Debian 13, and what it says where something is missing."""

import contextlib
import re
import subprocess

from chroot import AS_USER, PLAN, BareTest, Chroot


@contextlib.contextmanager
def hidden(*paths):
    """Takes files and folders away while it lasts."""
    moved = [path for path in paths if path.exists()]
    for path in moved:
        path.rename(path.with_name(path.name + ".away"))
    try:
        yield
    finally:
        for path in moved:
            path.with_name(path.name + ".away").rename(path)


def programs(system: Chroot, *names: str) -> list:
    return [system.root / "usr/bin" / name for name in names]


class Bare(BareTest):
    def system(self) -> Chroot:
        """Returns a Debian 13 on which the first command has ended well."""
        system = Chroot("trixie")
        self.assert_done(system.run(PLAN, timeout=1500))
        self.assert_plan(system)
        return system

    def assert_one_line_and_list(self, result: subprocess.CompletedProcess) -> None:
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertNotIn("CMake Error", result.stderr)
        self.assertNotIn("command not found", result.stderr)

    def test_debian_13_builds_and_plans(self):
        self.system()

    def test_a_user_without_sudo_gets_one_list(self):
        system = self.system()
        self.assert_done(system.run("apt-get remove --yes libcxxopts-dev libjs-chart.js", timeout=300))
        result = system.run(PLAN, timeout=60, inside=AS_USER)
        self.assert_one_line_and_list(result)
        self.assertIn("tune: there is neither root nor sudo to install packages, and these are missing:\n"
                      "  libcxxopts-dev       command-line options\n"
                      "  libjs-chart.js       the charts of a report\n"
                      "To install them: sudo apt-get install libcxxopts-dev libjs-chart.js\n", result.stderr)
        self.system()  # root gets them back

    def test_a_package_that_apt_does_not_know_stops_nothing(self):
        system = self.system()
        with (system.project / "scripts/packages.txt").open("a") as packages:
            packages.write("build  zf-no-such-package|libjs-chart.js  is an alternative\n"
                           "build  zf-no-other-package  is only an example\n")
        result = system.run(PLAN, timeout=300)
        self.assert_done(result)
        self.assertIn("apt could not install:\n  zf-no-other-package  is only an example\n", result.stderr)
        self.assertNotIn("zf-no-such-package", result.stderr)

    def test_without_apt_it_builds_with_what_is_there(self):
        system = self.system()
        with hidden(*programs(system, "apt-get", "dpkg-query", "dpkg")):
            self.assert_done(system.run(PLAN, timeout=900, inside=AS_USER))
        self.assert_plan(system)

    def test_without_apt_one_list_says_which_programs_are_missing(self):
        system = self.system()
        with hidden(*programs(system, "apt-get", "dpkg-query", "dpkg", "cmake", "ninja", "c++")):
            result = system.run(PLAN, timeout=60)
        self.assert_one_line_and_list(result)
        self.assertEqual(re.findall(r"(?m)^  (c\+\+|cmake|ninja|pkg-config)\b.*: \S", result.stderr),
                         ["c++", "cmake", "ninja"])
        self.assertRegex(result.stderr, r"(?m)^  libhwloc-dev +reads the machine")

    def test_without_apt_one_list_says_which_libraries_are_missing(self):
        system = self.system()
        libraries = [found for pattern in ("cmake/fmt", "cmake/cxxopts", "pkgconfig/hwloc.pc")
                     for folder in ("usr/lib", "usr/share") for found in (system.root / folder).rglob(pattern)]
        with hidden(*programs(system, "apt-get", "dpkg-query", "dpkg"), *libraries):
            result = system.run(f"rm -f build/CMakeCache.txt; {PLAN}", timeout=300)
        self.assert_one_line_and_list(result)
        self.assertEqual(re.findall(r"(?m)^  (.+) \(Debian: (\S+)\): \S", result.stderr),
                         [("hwloc", "libhwloc-dev"), ("fmt", "libfmt-dev"), ("cxxopts 3.1", "libcxxopts-dev")])
