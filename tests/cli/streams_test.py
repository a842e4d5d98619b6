"""What is said beside the result never stands in the way of the result, nor lands in it."""

import errno
import json
import os
import resource
import signal
import subprocess

from zf_cli import BINARY, DONE, RUNTIME_ERROR, SOURCE, STALE, USAGE, CommandTest, clean_environment

SIMULATED = ("tune", "--simulate", SOURCE / "configs/machines/desktop-4p-4e.json")
# Its table is longer than the buffer of a stream.
MANY_RANKS = ("plan", "--topology", "pack:8 [numa(memory=64GiB)] core:16 pu:1", "--ranks", "64")


def closed(*streams: int):
    """Returns a preexec_fn that closes these descriptors."""
    return lambda: [os.close(stream) for stream in streams]


def limited(kind: int, size: int):
    """Returns a preexec_fn that sets a limit."""
    return lambda: resource.setrlimit(kind, (size, size))


def files_up_to(size: int):
    """Returns a preexec_fn that lets no file hold more bytes."""
    return limited(resource.RLIMIT_FSIZE, size)


class Streams(CommandTest):
    def run_with(self, *arguments: str, **streams) -> int:
        """Returns the exit code with these streams in place of ours. What goes to another stdout is dropped."""
        return subprocess.run([BINARY, *map(str, arguments)], cwd=self.folder, env=clean_environment(),
                              stdin=subprocess.DEVNULL, timeout=50, check=False,
                              **{"stdout": subprocess.DEVNULL} | streams).returncode

    def run_unheard(self, *arguments: str) -> set[int]:
        """Returns the exit codes on a full disk, on a pipe without a reader, and without a stderr."""
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
        self.assertEqual(self.run_unheard("tune", "--fresh", "--budget", "1s", "--params", "4M"), {DONE})
        self.assert_sound(self.read_plan())

    def test_no_file_takes_the_place_of_a_closed_stream(self):
        self.assertEqual(self.run_with("tune", "-q", "--budget", "1s", "--params", "4M", preexec_fn=closed(0, 1, 2)),
                         DONE)
        self.assert_sound(self.read_plan())
        for line in (self.folder / "plan.json.samples.jsonl").read_text().splitlines():
            self.assertTrue(line.startswith("{"), line)

    def assert_limited(self, result, name=""):
        """Checks that the last line on stderr names this file and its limit."""
        self.assert_exit(result, RUNTIME_ERROR)
        self.assertIn(f"{name}: File too large; raise ulimit -f", result.stderr.splitlines()[-1])

    def test_a_small_address_space_is_named(self):
        for size in (32 << 20, 48 << 20):  # the program starts, and 4M parameters have 61 MiB
            result = self.run_tune("tune", "-q", "--budget", "1s", "--params", "4M",
                                   preexec_fn=limited(resource.RLIMIT_AS, size))
            self.assert_refused(result, RUNTIME_ERROR, "cannot allocate 61 MiB for 4000000 parameters: Cannot allocate "
                                "memory; raise ulimit -v")

    def test_the_least_address_space_in_which_a_command_starts_and_fails_is_named(self):
        for size in range(8 << 20, 64 << 20, 1 << 19):
            result = self.run_tune(*SIMULATED, "--fresh", "-q", preexec_fn=limited(resource.RLIMIT_AS, size))
            if result.returncode == DONE:
                break
            if result.returncode == RUNTIME_ERROR:  # else it could not be loaded
                self.assertIn("ulimit -v", result.stderr.splitlines()[-1])
        self.assert_exit(result, DONE)

    def test_no_name_drives_the_terminal(self):
        name = "plan\x1b[2J\n.json"
        for words in (("plan", "-o", name), ("plan", "-o", name, "--from", name),
                      (*SIMULATED, "--fresh", "-o", name, "--report", name + ".html"),
                      (*SIMULATED, "--fresh", "-o", name)):
            result = self.run_tune(*words)
            self.assert_exit(result, DONE)
            self.assertIn("wrote plan [2J .json", result.stderr)
            self.assertNotIn("\x1b", result.stderr)

    def test_a_limit_on_files_is_found_before_measuring_and_leaves_nothing(self):
        result = self.run_tune("tune", "--budget", "40s", preexec_fn=files_up_to(0), timeout=30)
        self.assert_refused(result, RUNTIME_ERROR, "plan.json.samples.jsonl: File too large; raise ulimit -f")
        self.assertNotIn("then continues", result.stderr)
        self.assert_wrote_nothing()

    def test_a_limit_on_files_never_kills(self):
        self.make_plan()
        before = (self.folder / "plan.json").read_text()
        for words in (("plan",), ("explain", "--report", "r.html"), ("export", "--for", "env", "-o", "e")):
            self.assert_limited(self.run_tune(*words, preexec_fn=files_up_to(100)))
        with open(self.folder / "out", "w") as out:
            limited = {"stdout": out, "stderr": out, "preexec_fn": files_up_to(100)}
            self.assertEqual(self.run_with("explain", **limited), RUNTIME_ERROR)
        self.assertEqual((self.folder / "plan.json").read_text(), before)
        self.assertEqual(sorted(os.listdir(self.folder)), ["out", "plan.json"])

    def test_a_sweep_that_a_limit_ended_promises_to_continue_only_if_it_can(self):
        result = self.run_tune(*SIMULATED, preexec_fn=files_up_to(2000))
        self.assert_limited(result, "plan.json.samples.jsonl")
        self.assertNotIn("the sweep then continues", result.stderr)
        self.assert_limited(self.run_tune(*SIMULATED, preexec_fn=files_up_to(10000)), "cannot write plan.json")
        result = self.run_tune(*SIMULATED)
        self.assert_exit(result, DONE)
        self.assertIn("continuing the interrupted sweep", result.stderr)


class Results(CommandTest):
    """Results are on stdout, all else is on stderr."""

    def run_into(self, *words: str, stdout=None, **keywords) -> tuple[int, str]:
        """Returns the exit code with this stdout, and stderr."""
        process = subprocess.run([BINARY, *map(str, words)], cwd=self.folder, env=clean_environment(), text=True,
                                 stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE, timeout=50,
                                 check=False, **keywords)
        return process.returncode, process.stderr

    def run_unwritable(self, *words: str):
        """Runs a command with a stdout that takes nothing, in each of three ways. Yields what run_into() returns, and
        what the reason is called."""
        reader, writer = os.pipe()
        os.close(reader)
        with open("/dev/full", "w") as full, open(writer, "w") as broken:
            for reason, how in ((errno.ENOSPC, {"stdout": full}), (errno.EPIPE, {"stdout": broken}),
                                (errno.EBADF, {"preexec_fn": closed(1)})):
                yield *self.run_into(*words, **how), os.strerror(reason)

    def run_joined(self, *words: str) -> tuple[int, str]:
        """Returns the exit code, and both streams as one file has them."""
        with open(self.folder / "joined", "w+") as joined:
            code = subprocess.run([BINARY, *map(str, words)], cwd=self.folder, env=clean_environment(), text=True,
                                  stdin=subprocess.DEVNULL, stdout=joined, stderr=subprocess.STDOUT, timeout=50,
                                  check=False).returncode
            joined.seek(0)
            return code, joined.read()

    def test_tune_and_plan_print_there_what_explain_prints(self):
        for words in (SIMULATED, ("plan",)):
            with self.subTest(words=words):
                result = self.run_tune(*words)
                self.assert_exit(result, DONE)
                self.assertEqual(result.stdout, self.run_tune("explain").stdout)
                self.assertEqual(result.stderr.splitlines()[-1], "wrote plan.json")
                self.assertNotIn("Allocation", result.stderr)

    def test_with_a_dash_stdout_has_the_plan_alone(self):
        for words in (SIMULATED, ("plan",)):
            with self.subTest(words=words):
                result = self.run_tune(*words, "-o", "-")
                self.assert_exit(result, DONE)
                self.assert_sound(json.loads(result.stdout))
                self.assertIn("\n\nA plan made by", "\n" + result.stderr)
                self.assert_wrote_nothing()

    def test_quiet_is_quiet(self):
        for words in (SIMULATED, ("plan",)):
            with self.subTest(words=words):
                result = self.run_tune(*words, "-q")
                self.assert_exit(result, DONE)
                self.assertEqual((result.stdout, result.stderr), ("", ""))
                result = self.run_tune(*words, "-q", "-o", "-")
                self.assertEqual((json.loads(result.stdout), result.stderr), (json.loads(result.stdout), ""))

    def test_in_one_file_the_table_is_below_the_notes(self):
        for words, notes in (((*SIMULATED, "--report", "r.html"), "wrote plan.json\nwrote r.html\n"),
                             (("plan",), "wrote plan.json\n")):
            with self.subTest(words=words):
                code, joined = self.run_joined(*words)
                self.assertEqual(code, DONE, joined)
                self.assertTrue(joined.endswith(f"{notes}\n{self.run_tune('explain').stdout}"), joined)

    def test_in_one_file_the_plan_of_a_dash_comes_first(self):
        code, joined = self.run_joined("plan", "-o", "-")
        self.assertEqual(code, DONE, joined)
        self.assertTrue(joined.startswith("{\n"), joined)
        self.assertIn("\n}\n\nA plan made by", joined)

    def test_in_one_file_a_note_or_an_error_is_below_the_results_before_it(self):
        self.make_plan("--topology", "pack:2 core:4 pu:2")
        for words, code, last in ((["explain", "--report", "r.html", "--topology", "pack:2 core:4 pu:2"], DONE,
                                   "wrote r.html"),
                                  (["explain", "--homes"], STALE, "zf-tune explain: --homes: the plan is not for"),
                                  (["export", "--for", "slurm"], DONE, "zf-tune export: ")):
            with self.subTest(words=words):
                ended, joined = self.run_joined(*words)
                self.assertEqual(ended, code, joined)
                self.assertGreater(len(joined.splitlines()), 1)
                self.assertTrue(joined.splitlines()[-1].startswith(last), joined)

    def test_a_stdout_that_takes_nothing_changes_the_exit_code_only(self):
        for words, files in ((("plan",), ["plan.json"]), (MANY_RANKS, ["plan.json"]),
                             ((*SIMULATED, "--fresh", "--report", "r.html"),
                              ["plan.json", "plan.json.samples.jsonl", "r.html"])):
            for code, said, reason in self.run_unwritable(*words):
                self.assertEqual(code, RUNTIME_ERROR, f"{words}, {reason}: {said}")
                notes = [f"wrote {file}" for file in files if "samples" not in file]
                self.assertEqual(said.splitlines()[-len(notes) - 1:],
                                 [*notes, f"zf-tune: cannot write standard output: {reason}"])
                self.assert_sound(self.read_plan())
                self.assertEqual(sorted(os.listdir(self.folder)), files)
                for file in files:
                    (self.folder / file).unlink()

    def test_a_sweep_is_done_though_its_table_cannot_be_printed(self):
        with open("/dev/full", "w") as full:
            self.assertEqual(self.run_into(*SIMULATED, stdout=full)[0], RUNTIME_ERROR)
        self.assertIn('"done"', (self.folder / "plan.json.samples.jsonl").read_text().splitlines()[-1])

    def test_a_plan_that_stdout_cannot_take_leaves_the_rest_complete(self):
        for code, said, reason in self.run_unwritable(*SIMULATED, "-o", "-", "--report", "r.html"):
            self.assertEqual(code, RUNTIME_ERROR, f"{reason}: {said}")
            self.assertIn("\n\nA plan made by", said)
            self.assertEqual(said.splitlines()[-1], f"zf-tune: cannot write standard output: {reason}")
            self.assertEqual(os.listdir(self.folder), ["r.html"])
            (self.folder / "r.html").unlink()

    def test_other_commands_say_the_same(self):
        self.make_plan()
        for words in (["explain", "--report", "r.html"], ["check"], ["probe"], ["export", "-q", "--for", "env"],
                      ["exec", "--dry-run", "true"], ["doctor"], ["--help"], ["plan", "--help"], ["--version"]):
            for code, said, reason in self.run_unwritable(*words):
                self.assertEqual(code, RUNTIME_ERROR, f"{words}, {reason}: {said}")
                self.assertEqual(said.splitlines()[-1], f"zf-tune: cannot write standard output: {reason}")
        self.assertTrue((self.folder / "r.html").read_text().endswith("</html>\n"))

    def test_what_is_not_printed_cannot_fail(self):
        for code, said, _ in self.run_unwritable("plan", "-q"):
            self.assertEqual((code, said), (DONE, ""))

    def test_another_error_keeps_its_code_and_its_line(self):
        self.make_plan("--topology", "pack:2 core:4 pu:2")
        for code, said, _ in self.run_unwritable("explain", "--homes"):
            self.assertEqual(code, STALE, said)
            self.assertEqual(len(said.splitlines()), 1, said)
            self.assertIn("--homes: the plan is not for", said)

    def test_what_fits_in_no_buffer_is_no_signal(self):
        self.assert_exit(self.run_tune(*MANY_RANKS, "-q"), DONE)
        self.assertGreater(len(self.run_tune("explain").stdout), 1 << 12)
        for code, said, reason in self.run_unwritable("explain"):
            self.assertEqual((code, said), (RUNTIME_ERROR, f"zf-tune: cannot write standard output: {reason}\n"))


class Targets(CommandTest):
    """What cannot take the result is refused before the work."""

    def assert_no_target(self, *words: str):
        self.assert_refused(self.run_tune(*words, timeout=30), USAGE)

    def test_no_name_at_all(self):
        for words in (["tune", "--budget", "40s", "-o", ""], ["tune", "--budget", "40s", "--report", ""],
                      ["plan", "-o", ""], ["trial", "--metric", "x", "-o", "", "--", "true"],
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
                          ["plan", "-o", target], ["trial", "--metric", "x", "-o", target, "--", "true"]):
                with self.subTest(words=words):
                    self.assert_no_target(*words)
        self.assertEqual(sorted(os.listdir(self.folder)), before)

    def test_the_plan_itself(self):
        before = self.make_plan()
        self.assert_no_target("export", "--for", "env", "-o", "./plan.json", "plan.json")
        self.assertEqual(self.read_plan(), before)
