"""The README's two commands, whole, on minimal Debian systems, in each way in which people run them."""

import re
import shutil
import subprocess

from chroot import AS_USER, DOCKER_LIKE, PLAN, BareTest, Chroot

TUNE = "./scripts/tune --budget 10s -o ~/plan.json"
TEST = "./scripts/test"

DOCKER = ("/usr/bin/python3", DOCKER_LIKE, "--")
NO_NEW_PRIVS = ("setpriv", "--no-new-privs")


class Systems(BareTest):
    """Each starts with a system as debootstrap leaves it. What the commands need, they install, or they name it."""

    def both_commands(self, suite: str, before=(), inside=()) -> None:
        self.both(self.fresh(suite), before, inside)

    def both(self, system: Chroot, before=(), inside=()) -> None:
        for command, seconds in ((TUNE, 1500), (TEST, 3600)):
            result = self.command(system, command, seconds, before, inside)
            if result.returncode == 77 and before:
                self.skipTest(result.stderr.strip())
            self.assert_done(result)
            print(f"{command}\n{(result.stdout + result.stderr).strip()[-3000:]}\n")
            if command == TUNE:
                self.assert_plan(system)

    def fresh(self, suite: str) -> Chroot:
        system = Chroot(suite, fresh=True)
        self.addCleanup(shutil.rmtree, system.root)
        return system

    def command(self, system: Chroot, command: str, seconds: int, before, inside) -> subprocess.CompletedProcess:
        """Runs a command. If it says what an administrator has to type, does that and runs the command again."""
        result = system.run(command, timeout=seconds, before=before, inside=inside)
        said = re.search(r"(?m)^To install them: sudo (apt-get install .+)$", result.stderr)
        if result.returncode == 1 and said:
            print(f"{said[0]}\n")
            self.assert_done(system.run(f"yes | {said[1]}", timeout=900))
            result = system.run(command, timeout=seconds, before=before, inside=inside)
        return result

    def test_debian_12_as_root(self):
        self.both_commands("bookworm")

    def test_debian_12_as_a_user(self):
        self.both_commands("bookworm", inside=AS_USER)

    def test_debian_12_as_docker_runs_it(self):
        self.both_commands("bookworm", before=DOCKER)

    def test_debian_12_without_new_privileges(self):
        self.both_commands("bookworm", inside=NO_NEW_PRIVS)

    def test_debian_12_as_a_user_without_new_privileges(self):
        self.both_commands("bookworm", inside=(*NO_NEW_PRIVS, *AS_USER))

    def test_debian_12_as_docker_runs_it_for_a_user(self):
        self.both_commands("bookworm", before=(*DOCKER[:-1], "--no-new-privs", "--"), inside=AS_USER)

    def test_debian_13_as_root(self):
        self.both_commands("trixie")

    def test_debian_13_as_a_user(self):
        self.both_commands("trixie", inside=AS_USER)

    def test_debian_13_as_docker_runs_it(self):
        self.both_commands("trixie", before=DOCKER)

    def test_debian_13_as_docker_runs_it_for_a_user(self):
        self.both_commands("trixie", before=(*DOCKER[:-1], "--no-new-privs", "--"), inside=AS_USER)

    def test_debian_13_without_new_privileges(self):
        self.both_commands("trixie", inside=NO_NEW_PRIVS)

    def test_debian_13_as_a_user_without_new_privileges(self):
        self.both_commands("trixie", inside=(*NO_NEW_PRIVS, *AS_USER))

    def with_sudo(self, suite: str) -> None:
        """A user's system has sudo, and it asks this user for no password."""
        system = self.fresh(suite)
        self.assert_done(system.run("apt-get update && apt-get install --yes --no-install-recommends sudo && "
                                    "echo 'user ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/user", timeout=300))
        self.both(system, inside=AS_USER)

    def test_debian_12_as_a_user_with_sudo(self):
        self.with_sudo("bookworm")

    def test_debian_13_as_a_user_with_sudo(self):
        self.with_sudo("trixie")

    def test_debian_12_makes_a_package_with_what_it_depends_on(self):
        system = self.fresh("bookworm")
        self.assert_done(system.run(f"{PLAN} && cmake --build build", timeout=2400))
        tools = "usr/bin/dpkg-shlibdeps", "usr/bin/file"
        with system.hidden(*tools):
            without = system.run("cd build && cpack", timeout=300)
        self.assertNotEqual(without.returncode, 0)
        self.assertIn("one is missing: apt-get install dpkg-dev file", without.stderr)
        self.assertEqual(list(system.project.glob("build/*.deb")), [])
        made = system.run("apt-get install --yes --no-install-recommends dpkg-dev file && (cd build && cpack) && "
                          "dpkg-deb --field build/*.deb Depends", timeout=600)
        self.assert_done(made)
        self.assertRegex(made.stdout.splitlines()[-1], r"libhwloc15 .*libnuma1")

    def test_debian_12_with_gcc_11(self):
        system = self.fresh("bookworm")
        self.assert_done(system.run("apt-get update && apt-get install --yes --no-install-recommends g++-11", 300))
        self.assert_done(system.run(f"CC=gcc-11 CXX=g++-11 {PLAN}", timeout=1800))
        self.assert_plan(system)

    def test_debian_testing(self):
        system = self.fresh("testing")
        self.assert_done(system.run(PLAN, timeout=1800))
        self.assert_plan(system)
