"""What each command prints fits a terminal of 80 and of 40 columns: nothing is cut, and no table falls to pieces.

Messages, and what other programs read, are not broken: a terminal wraps them, and who copies one has all of it."""

import json
import pathlib
import re
import signal
import sys
import unittest

from at_terminal import TerminalTest
from record_test import TORCH, TRAIN
from trial_test import JOB, METRIC
from zf_cli import DONE, SOURCE, STALE, all_commands

MACHINE = sorted((SOURCE / "configs/machines").glob("*.json"))[0]
NODE = ("--topology", "pack:2 [numa(memory=64GiB)] l3:2 core:8 pu:2", "--ranks", "4")
OTHER = "pack:1 [numa(memory=64GiB)] core:4 pu:1"
WIDTHS = (80, 40)
# Lines for a shell or a launcher.
FOR_PROGRAMS = {"exec", "export"}


class Terminal(TerminalTest):
    def setUp(self):
        super().setUp()
        self.need_two_cpus()
        self.plan = self.make_plan("--ranks", "1")
        self.make_plan(*NODE, name="other.json")
        self.write_files({f"job/{name}": text for name, text in (TORCH | {"train.py": TRAIN}).items()})
        (self.folder / "plans").mkdir()
        (self.folder / "plans" / f"{self.plan['machine']['fingerprint']}.json").write_text(json.dumps(self.plan))

    def commands(self) -> dict[str, list[tuple[int, tuple[str, ...]]]]:
        """Returns, for each command, its exit status and its words for some of its outputs."""
        return {
            "tune": [(DONE, ("tune", "--simulate", MACHINE, "-o", "tuned.json", "--fresh"))],
            "probe": [(DONE, ("probe",)), (DONE, ("probe", *NODE, "--allowed", "0,4-11,20"))],
            "plan": [(DONE, ("plan", *NODE, "-o", "planned.json"))],
            "explain": [(DONE, ("explain", "tuned.json")), (DONE, ("explain", "other.json")),
                        (DONE, ("explain", "--homes", *NODE[:2], "other.json"))],
            "check": [(DONE, ("check", "plan.json")), (STALE, ("check", "--topology", OTHER, "plan.json"))],
            "exec": [(DONE, ("exec", "--dry-run", "--", "python3", "train.py"))],
            "export": [(DONE, ("export", "-q", "--for", "env"))],
            "doctor": [(DONE, ("doctor",))],
            "verify": [(DONE, ("verify", "--job", "plan.json"))],
            "record": [(DONE, ("record", "-o", "job.json", "--", sys.executable, "job/train.py", "30"))],
            "trial": [(DONE, ("trial", "--trials", "1", "-o", "won.json", "--metric", METRIC, "--fresh", "--",
                              "sh", "-c", JOB))],
            "bench": [(DONE, ("bench", "--params", "1M", "--rounds", "1")),
                      (DONE, ("bench", "--params", "1M", "--rounds", "1", "--ranks", "1,2"))],
            "fit": [(DONE, ("fit", "--params", "1M"))],
            "publish": [(DONE, ("publish", "--plans", "plans", "--to", "run/1.json"))],
            "survey": [(DONE, ("survey", "add", "nodes", "--name", "n1", "--no-bandwidth")),
                       (DONE, ("survey", "nodes")), (STALE, ("survey", "nodes", "--nodes", "n[1-30],m[1-9]"))],
            "kept": [(DONE, ("kept",))],
            "where": [(DONE, ("where", "--rank", "0", "--ranks", "1"))],
        }

    def test_what_each_command_prints_fits(self):
        job = self.start_tune("exec", "--plan", "plan.json", "--", "sleep", "100")
        self.addCleanup(self.finish, job)
        self.addCleanup(job.send_signal, signal.SIGKILL)
        while pathlib.Path(f"/proc/{job.pid}/comm").read_text() != "sleep\n":
            self.assertIsNone(job.poll())
        commands = self.commands()
        self.assertEqual(sorted(commands), sorted(all_commands()))
        for columns in WIDTHS:
            for command, outputs in commands.items():
                for code, words in outputs:
                    with self.subTest(columns=columns, words=words):
                        said, _ = self.run_at_terminal(columns, ("stdout",), *words, code=code)
                        self.assertGreater(len(said), 10)
                        if command not in FOR_PROGRAMS:
                            self.assert_fits(said, columns)

    def test_what_programs_read_is_not_broken(self):
        for words in self.commands()["exec"] + self.commands()["export"]:
            with self.subTest(words):
                said, _ = self.run_at_terminal(40, ("stdout",), *words[1])
                self.assertEqual(said, self.run_tune(*words[1]).stdout)

    def test_a_list_loses_no_word_at_a_terminal_and_has_one_line_each_elsewhere(self):
        words = ("check", "--topology", OTHER, "plan.json")
        whole = self.run_tune(*words).stdout
        self.assertGreater(max(map(len, whole.splitlines())), 40)
        said, _ = self.run_at_terminal(40, ("stdout",), *words, code=STALE)
        self.assertEqual("".join(said.split()), "".join(whole.split()))

    def test_every_help_fits(self):
        for columns in WIDTHS:
            for words in [["--help"], *([command, "--help"] for command in all_commands())]:
                with self.subTest(columns=columns, words=words):
                    said, _ = self.run_at_terminal(columns, ("stdout",), *words)
                    self.assert_fits(said, columns)

    def test_no_line_of_the_progress_is_cut(self):
        """The first line had 84 columns, and the end of it was missing: "… | at most 4"."""
        for columns in WIDTHS:
            with self.subTest(columns):
                said, _ = self.run_at_terminal(columns, ("stderr",), "tune", "--params", "4M", "--budget", "1s",
                                               "--fresh", "-o", "real.json")
                phase = r"(explore|refine|confirm|estimate) "
                drawn = [line for line in said.split("\r\x1b[K") if re.match(phase, line)]
                self.assertGreater(len(drawn), 0, said)
                for line in drawn:
                    self.assertLess(len(line), columns, line)
                    self.assertRegex(line, r"\| at most \d+ s left$")

    def test_a_simulated_sweep_has_no_clock(self):
        """It said "[25.4 s] … at most 43 s left", and was done in 0.02 s."""
        words = ("tune", "--simulate", MACHINE, "--fresh")
        live, _ = self.run_at_terminal(80, ("stderr",), *words)
        plain = self.run_tune(*words).stderr
        self.assertIn("explore 1/", live)
        self.assertIn("round 1, explore ", plain)
        for said in (live, plain):
            self.assertNotRegex(said, r" s left|\[ *\d+\.\d s\]")
        # Of few parameters, so that the first round, which is all that is said, ends in time on a busy machine.
        real = self.run_tune("tune", "--params", "1M", "--budget", "10s", "--accuracy", "50", "-o", "real.json").stderr
        self.assertRegex(real, r"(?s)\[ *\d+\.\d s\].* s left")


if __name__ == "__main__":
    unittest.main()
