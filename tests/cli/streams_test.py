"""What is said beside the result never stands in the way of the result, nor lands in it."""

import os
import resource
import signal
import subprocess

from zf_cli import BINARY, DONE, RUNTIME_ERROR, USAGE, CommandTest, clean_environment


def closed(*streams: int):
    """Returns a preexec_fn that closes these descriptors."""
    return lambda: [os.close(stream) for stream in streams]


def full_disk() -> None:
    """Lets no file hold a byte. It is a preexec_fn."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


class Streams(CommandTest):
    def run_with(self, *arguments: str, **streams) -> int:
        """Returns the exit code with these streams in place of ours."""
        return subprocess.run([BINARY, *map(str, arguments)], cwd=self.folder, env=clean_environment(),
                              stdin=subprocess.DEVNULL, timeout=50, **streams).returncode

    def run_unheard(self, *arguments: str) -> set[int]:
        """Returns the exit codes on a full disk, on a pipe that nobody reads, and without a stderr."""
        reader, writer = os.pipe()
        os.close(reader)
        with open("/dev/full", "w") as full, open(writer, "w") as broken:
            return {self.run_with(*arguments, stderr=full), self.run_with(*arguments, stderr=broken),
                    self.run_with(*arguments, preexec_fn=closed(2))}

    def test_a_plan_is_written_though_nothing_can_be_said(self):
        self.assertEqual(self.run_unheard("plan"), {DONE})
        self.assert_sound(self.read_plan())

    def test_an_error_that_cannot_be_said_keeps_its_code(self):
        for words in (["explain", "no.json"], ["tune", "--no-such-flag"], ["tuen"]):
            self.assertEqual(self.run_unheard(*words), {USAGE}, words)

    def test_exec_starts_the_command_though_its_notes_cannot_be_said(self):
        started = ["exec", "--force", "-p", "no.json", "--", "sh", "-c", "echo >>started"]
        self.assertEqual(self.run_unheard(*started), {DONE})
        self.assertEqual(self.run_with(*started, preexec_fn=closed(0, 1, 2)), DONE)
        self.assertEqual((self.folder / "started").read_text(), "\n" * 4)

    def test_what_exec_starts_dies_of_a_broken_pipe_as_ever(self):
        self.assert_exit(self.run_tune("exec", "--force", "-p", "no.json", "--", "sh", "-c", "kill -PIPE $$"),
                         -signal.SIGPIPE)

    def test_measuring_goes_on_unheard(self):
        self.assertEqual(self.run_unheard("tune", "--fresh", "--budget", "2s", "--params", "4M"), {DONE})
        self.assert_sound(self.read_plan())

    def test_no_file_takes_the_place_of_a_closed_stream(self):
        self.assertEqual(self.run_with("tune", "--budget", "2s", "--params", "4M", preexec_fn=closed(0, 1, 2)), DONE)
        self.assert_sound(self.read_plan())
        for line in (self.folder / "plan.json.samples.jsonl").read_text().splitlines():
            self.assertTrue(line.startswith("{"), line)

    def test_a_result_that_cannot_be_written_is_an_error(self):
        with open("/dev/full", "w") as full:
            self.assertEqual(self.run_with("plan", "-q", "-o", "-", stdout=full), RUNTIME_ERROR)
        self.assertEqual(self.run_with("plan", "-q", "-o", "-", preexec_fn=closed(1)), RUNTIME_ERROR)

    def test_quiet_is_quiet(self):
        result = self.run_tune("plan", "-q")
        self.assert_exit(result, DONE)
        self.assertEqual((result.stdout, result.stderr), ("", ""))

    def test_a_full_disk_is_found_before_measuring_and_leaves_nothing(self):
        result = self.run_tune("tune", "--budget", "40s", preexec_fn=full_disk, timeout=30)
        self.assert_refused(result, RUNTIME_ERROR, "plan.json.samples.jsonl", "free some space")
        self.assert_wrote_nothing()


class Targets(CommandTest):
    """What cannot take the result is refused before the work."""

    def assert_no_target(self, *words: str):
        self.assert_refused(self.run_tune(*words, timeout=30), USAGE)

    def test_no_name_at_all(self):
        for words in (["tune", "--budget", "40s", "-o", ""], ["tune", "--budget", "40s", "--report", ""],
                      ["plan", "-o", ""], ["trial", "-m", "x", "-o", "", "--", "true"],
                      ["publish", "--plans", ".", "--to", ""]):
            with self.subTest(words=words):
                self.assert_no_target(*words)
                self.assert_wrote_nothing()
        self.make_plan()
        self.assert_no_target("export", "--for", "env", "-o", "")

    def test_no_file(self):
        os.mkfifo(self.folder / "fifo")
        # A link: what is written in the place of a file must not take the machine's own.
        (self.folder / "device").symlink_to("/dev/null")
        (self.folder / "loop").symlink_to("loop")
        before = sorted(os.listdir(self.folder))
        for target in ("device", "fifo", "loop", "x" * 300):
            for words in (["tune", "--budget", "40s", "-o", target], ["tune", "--budget", "40s", "--report", target],
                          ["plan", "-o", target], ["trial", "-m", "x", "-o", target, "--", "true"]):
                with self.subTest(words=words):
                    self.assert_no_target(*words)
        self.assertEqual(sorted(os.listdir(self.folder)), before)

    def test_the_plan_itself(self):
        before = self.make_plan()
        self.assert_no_target("export", "--for", "env", "-o", "./plan.json", "plan.json")
        self.assertEqual(self.read_plan(), before)
