"""A limit of the process, a full folder or missing device is named, with the way out, by any command that meets it."""

import resource
import signal

from permissions import need_namespaces
from zf_cli import DONE, RUNTIME_ERROR, SOURCE, CommandTest

SIMULATED = ("tune", "--fresh", "-q", "--simulate", SOURCE / "configs/machines/desktop-4p-4e.json")
MEASURED = ("tune", "--fresh", "-q", "--budget", "1s", "--params", "4M")
TRIAL = ("trial", "--metric", "x([0-9]+)", "--plan", "p.json", "--", "echo", "x5")
NOT_LOADED = 127  # the program needs more than that for itself


def limited(kind: int, size: int):
    """Returns a preexec_fn that sets a limit."""
    return lambda: resource.setrlimit(kind, (size, size))


class Limits(CommandTest):
    def assert_named(self, kind: int, sizes, name: str, *words: str):
        """Runs a command under one limit after another until it succeeds. Each error must have this name."""
        errors = 0
        for size in sizes:
            result = self.run_tune(*words, preexec_fn=limited(kind, size))
            if result.returncode == DONE:
                break
            if result.returncode != NOT_LOADED:
                self.assert_refused(result, RUNTIME_ERROR, name)
                errors += 1
        self.assert_exit(result, DONE)
        self.assertGreater(errors, 0)

    def run_in_namespace(self, mount: str, *words: str):
        """Runs a command where this shell command has mounted what the case needs."""
        need_namespaces("--mount")
        return self.run_tune(*words, before=["unshare", "--mount", "sh", "-c", mount + ' && exec "$@"', "sh"])

    def test_few_descriptors(self):
        for words in (("plan",), SIMULATED, ("check", "p.json"), ("bench", "--params", "1M", "--threads", "1")):
            self.make_plan(name="p.json")
            self.assert_named(resource.RLIMIT_NOFILE, range(4, 30), "ulimit -n", *words)

    def test_few_descriptors_never_hide_a_part_of_the_machine(self):
        machine = self.make_plan()["machine"]
        for most in range(4, 30):
            if self.run_tune("plan", preexec_fn=limited(resource.RLIMIT_NOFILE, most)).returncode == DONE:
                self.assertEqual(self.read_plan()["machine"], machine, most)

    def test_little_data(self):
        self.assert_named(resource.RLIMIT_DATA, [1 << bits for bits in range(18, 31)], "ulimit -d", *MEASURED)
        result = self.run_tune("doctor", preexec_fn=limited(resource.RLIMIT_DATA, 7 << 20))
        self.assert_refused(result, RUNTIME_ERROR, "cannot start a thread")

    def test_data_too_small_to_start(self):
        """glibc 2.41's loader crashes between 384 and 391 KiB, before it runs anything of the program."""
        for size in range(256 << 10, 3 << 20, 128 << 10):
            limit = limited(resource.RLIMIT_DATA, size)
            result = self.run_tune("--version", preexec_fn=limit)
            if result.returncode == -signal.SIGSEGV:  # so does the loader alone
                result = self.run_tune("--version", preexec_fn=limit, LD_TRACE_LOADED_OBJECTS="1")
                self.assertEqual(result.returncode, -signal.SIGSEGV, size)
                continue
            self.assertIn(result.returncode, (DONE, RUNTIME_ERROR, NOT_LOADED), size)
            if result.returncode == RUNTIME_ERROR:
                self.assertEqual(result.stderr, "zf-tune: out of memory; raise ulimit -d\n")

    def test_a_full_temporary_folder(self):
        self.make_plan(name="p.json")
        full = "mount -t tmpfs -o size=4k none tmp && { cat /dev/zero >tmp/full 2>&-; export TMPDIR=tmp; }"
        (self.folder / "tmp").mkdir()
        for words in (TRIAL, ("record", "--", "true")):
            result = self.run_in_namespace(full, *words)
            self.assert_exit(result, RUNTIME_ERROR)
            self.assertIn("No space left on device; free some space, or let TMPDIR name another folder",
                          result.stderr.splitlines()[-1])

    def test_a_command_without_a_null_device(self):
        self.make_plan(name="p.json")
        result = self.run_in_namespace("mount -t tmpfs none /dev", *TRIAL)
        self.assert_exit(result, RUNTIME_ERROR)
        self.assertIn("/dev/null: No such file or directory; the command's input comes from there: mount or make",
                      result.stderr)
