"""The README's two commands, whole, on minimal Debian systems, in each way in which people run them."""

from chroot import AS_USER, DOCKER_LIKE, PLAN, BareTest, Chroot

TUNE = "./scripts/tune --budget 10s -o ~/plan.json"
TEST = "./scripts/test"

DOCKER = ("/usr/bin/python3", DOCKER_LIKE, "--")
NO_NEW_PRIVS = ("setpriv", "--no-new-privs")


class Systems(BareTest):
    def both_commands(self, suite: str, before=(), inside=()) -> None:
        """Runs both commands. Root has installed the packages before, because not everybody here can."""
        system = Chroot(suite)
        self.assert_done(system.run("source scripts/lib.sh && need_packages build test", timeout=900))
        system.give_to_user()
        self.both(system, before, inside)

    def both(self, system: Chroot, before=(), inside=(), without=("", "")) -> None:
        """Runs both commands. Before each, root removes a package of `without`, which the command then installs."""
        for command, seconds, package in ((TUNE, 1500, without[0]), (TEST, 3600, without[1])):
            if package:
                self.assert_done(system.run(f"apt-get remove --yes {package}", timeout=300))
            result = system.run(command, timeout=seconds, before=before, inside=inside)
            if result.returncode == 77 and before:
                self.skipTest(result.stderr.strip())
            self.assert_done(result)
            print(f"{command}\n{(result.stdout + result.stderr).strip()[-3000:]}\n")
            if command == TUNE:
                self.assert_plan(system)

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
        """A user with sudo installs what is missing, and then runs both commands."""
        system = Chroot(suite)
        self.assert_done(system.run("source scripts/lib.sh && need_packages build test && install_packages 'sudo x' && "
                                    "echo 'user ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/user", timeout=900))
        system.give_to_user()
        try:
            self.both(system, inside=AS_USER, without=("libcxxopts-dev", "libbenchmark-dev"))
        finally:
            system.run("rm /etc/sudoers.d/user", timeout=60)

    def test_debian_12_as_a_user_with_sudo(self):
        self.with_sudo("bookworm")

    def test_debian_13_as_a_user_with_sudo(self):
        self.with_sudo("trixie")

    def test_debian_12_with_gcc_11(self):
        system = Chroot("bookworm")
        self.assert_done(system.run("source scripts/lib.sh && need_packages build && install_packages 'g++-11 x'",
                                    timeout=900))
        self.assert_done(system.run(f"rm -rf build && CC=gcc-11 CXX=g++-11 {PLAN} && rm -rf build", timeout=1800))
        self.assert_plan(system)

    def test_debian_testing(self):
        system = Chroot("testing")
        self.assert_done(system.run(PLAN, timeout=1800))
        self.assert_plan(system)
