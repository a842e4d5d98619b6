"""zf-tune tune, ended by one SIGINT, SIGTERM or SIGHUP at any moment: a valid plan or none, and samples to go on with.
The status is 130, 143 or 129, as that of all commands that a signal cuts short.

ZF_TRIES is how often each sweep is interrupted (default 15).
"""

import json
import os
import random
import signal
import subprocess
import time

from zf_cli import BINARY, DONE, SOURCE, CommandTest, clean_environment

TRIES = int(os.environ.get("ZF_TRIES", "15"))
DONE_LINE = '{"done":true}'
MACHINE = SOURCE / "configs/machines/epyc-7742-8gpu-nps1.json"


def finished_rounds(lines):
    """Returns how many rounds of a sample file have a visit to each of their splits."""
    rounds = []
    for line in map(json.loads, lines[1:]):
        if "round" in line:
            rounds.append(set(line["splits"]))
        elif "split" in line:
            rounds[-1].discard(line["split"])
    return rounds.count(set())


class Interrupt(CommandTest):
    def setUp(self):
        super().setUp()
        self.plan = self.folder / "plan.json"
        self.samples = self.folder / "plan.json.samples.jsonl"

    def whole_lines(self):
        text = self.samples.read_text() if self.samples.exists() else ""
        return text.splitlines()[: text.count("\n")]

    def has_a_finished_round(self):
        return finished_rounds(self.whole_lines()) > 0

    def interrupted(self, arguments, is_time, delay, by):
        """Ends a sweep by one signal; returns its exit status and what it said.

        The signal is sent that many seconds after is_time() has become true of the sample file, so a faster or busier
        machine is interrupted at the same moments of the sweep.
        """
        process = self.start_tune("tune", *arguments)
        self.addCleanup(process.kill)
        deadline = time.monotonic() + 150
        while not is_time() and process.poll() is None:
            self.assertLess(time.monotonic(), deadline, "these samples never came")
            time.sleep(0.0005)
        time.sleep(delay)
        process.send_signal(by)
        ended = self.finish(process)
        return ended.returncode, ended.stderr

    def try_often(self, arguments, most_lines):
        """Interrupts a sweep again and again, each time before it records more than that many lines."""
        chance = random.Random(1)
        ended = {"by the signal": 0, "with a plan, cut short": 0, "by itself": 0}
        resumed = 0
        for _ in range(TRIES):
            self.plan.unlink(missing_ok=True)
            if chance.random() < 0.2:
                self.samples.unlink(missing_ok=True)
            before = self.whole_lines()
            by = chance.choice((signal.SIGINT, signal.SIGTERM))
            begun_anew = not before or before[-1] == DONE_LINE
            at_its_start = chance.random() < 0.3
            lines = 0 if at_its_start else chance.randint(1, most_lines)
            delay = chance.uniform(0, 0.2 if at_its_start else 0.02)
            if not at_its_start and begun_anew:
                self.samples.unlink(missing_ok=True)  # only the lines of this try are to be counted
            elif not at_its_start:
                lines += len(before)
            status, talk = self.interrupted(arguments, lambda lines=lines: len(self.whole_lines()) >= lines, delay, by)
            self.assertIn(status, (DONE, 128 + by, -by), talk)
            if status == -by:  # before the sweep began or, maybe, after the plan was written
                if self.plan.exists():
                    self.assert_sound(self.read_plan())
            else:
                self.assertEqual(self.plan.exists(), "no plan was written" not in talk, talk)
            has_written = status != -by and self.plan.exists()
            after = self.whole_lines()
            if not begun_anew and has_written:
                self.assertEqual(after[: len(before)], before, "samples were lost")
                if finished_rounds(before) > 0:
                    self.assertIn("continuing the interrupted sweep", talk)
                    resumed += 1
            for line in after:
                json.loads(line)
            if not has_written:
                ended["by the signal"] += 1
                continue
            plan = self.read_plan()
            self.assert_sound(plan)
            cut = f"cut short by {by.name}" in plan["choice"]["reason"]
            self.assertEqual(cut, after[-1] != DONE_LINE)
            ended["with a plan, cut short" if cut else "by itself"] += 1
        print(f"{TRIES} tries ended: {ended}; {resumed} went on with samples")
        self.assertGreater(ended["with a plan, cut short"], 0, ended)
        self.assertGreater(resumed, 0)

    def test_a_real_sweep_may_be_ended_at_any_moment(self):
        self.try_often(["--params", "4M", "--budget", "20s", "--accuracy", "0.2"], 100)

    def test_a_simulated_sweep_may_be_ended_at_any_moment(self):
        sweep = ["--simulate", str(MACHINE), "--accuracy", "0.05", "--budget", "1h"]
        self.assert_exit(self.run_tune("tune", *sweep), DONE)
        self.try_often(sweep, len(self.whole_lines()))

    def test_a_sweep_of_the_whole_memory_goes_on_so_with_any_budget(self):
        sweep = ["--params", "8M", "--accuracy", "0.1", "--budget"]
        status, talk = self.interrupted([*sweep, "10m"], self.has_a_finished_round, 0, signal.SIGTERM)
        self.assertEqual(status, 128 + signal.SIGTERM, talk)
        before = self.whole_lines()
        result = self.run_tune("tune", *sweep, "1s")
        self.assert_exit(result, DONE)
        self.assertIn("continuing the interrupted sweep", result.stderr)
        self.assertEqual(self.whole_lines()[: len(before)], before, "samples were lost")
        self.assertNotIn("because the budget is only", "\n".join(self.read_plan()["warnings"]))
        self.assert_exit(self.run_tune("tune", *sweep, "1s", "--fresh"), DONE)
        self.assertIn("because the budget is only 1.00 s", "\n".join(self.read_plan()["warnings"]))

    def test_says_that_the_same_command_goes_on_if_that_is_true(self):
        sweep = ["--params", "4M", "--accuracy", "0.2", "--budget", "5m"]
        says = "the same command{} continues this sweep"
        for by, options, said in ((signal.SIGINT, [], says.format("")),
                                  (signal.SIGTERM, ["--fresh"], says.format(" without --fresh")),
                                  (signal.SIGTERM, ["-q"], None)):
            self.samples.unlink(missing_ok=True)
            status, talk = self.interrupted([*sweep, *options], self.has_a_finished_round, 0, by)
            self.assertEqual(status, 128 + by, talk)
            if said:
                self.assertEqual(talk.splitlines().count(said), 1, talk)
            else:
                self.assertEqual(talk, "")
        result = self.run_tune("tune", *sweep[:-1], "1s")
        self.assert_exit(result, DONE)
        self.assertIn("continuing the interrupted sweep", result.stderr)
        self.assertNotIn("the same command", result.stderr)

    def test_a_terminal_that_goes_away_leaves_a_plan(self):
        ours, theirs = os.openpty()
        process = subprocess.Popen(
            ["setsid", "--ctty", BINARY, "tune", "--params", "4M", "--budget", "5m"],
            cwd=self.folder, env=clean_environment(), stdin=theirs, stdout=theirs, stderr=theirs)
        self.addCleanup(process.kill)
        os.close(theirs)
        deadline = time.monotonic() + 150
        while not self.has_a_finished_round():
            self.assertLess(time.monotonic(), deadline, "no round was finished")
            os.read(ours, 1 << 16)
        os.close(ours)
        self.assertEqual(process.wait(timeout=30), 128 + signal.SIGHUP)
        self.assertIn("cut short by SIGHUP", self.read_plan()["choice"]["reason"])

    def test_a_signal_that_is_ignored_stays_ignored(self):
        process = self.start_tune("tune", "--params", "4M", "--budget", "3s", "--accuracy", "0.2", before=["nohup"])
        self.addCleanup(process.kill)
        while not self.whole_lines():
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        process.send_signal(signal.SIGHUP)
        self.assert_exit(self.finish(process), DONE)

    def test_does_not_say_so_where_no_samples_are_kept(self):
        process = self.start_tune("tune", "--params", "4M", "--budget", "5m", "-o", "-")
        while not process.stderr.readline().startswith("["):  # the first visit
            self.assertIsNone(process.poll())
        process.send_signal(signal.SIGTERM)
        result = self.finish(process)
        self.assert_exit(result, 128 + signal.SIGTERM)
        self.assertIn("cut short by SIGTERM", result.stdout)
        self.assertNotIn("the same command", result.stderr)

    def test_a_resumed_sweep_chooses_what_an_undisturbed_one_does(self):
        undisturbed = ["--simulate", str(MACHINE), "-q"]
        self.assert_exit(self.run_tune("tune", *undisturbed), DONE)
        choice = self.read_plan()["choice"]
        lines = self.samples.read_text().splitlines(keepends=True)
        self.samples.write_text("".join(lines[:-1]))  # all but that it was done
        self.assert_exit(self.run_tune("tune", *undisturbed), DONE)
        self.assertEqual(self.read_plan()["choice"], choice)
        self.assertEqual(self.samples.read_text(), "".join(lines), "nothing was measured twice")

    def test_a_resumed_sweep_has_no_round_with_visits_of_two_sessions(self):
        undisturbed = ["--simulate", str(MACHINE), "-q"]
        self.assert_exit(self.run_tune("tune", *undisturbed), DONE)
        lines = self.samples.read_text().splitlines()
        begins = [i for i, line in enumerate(lines) if line.startswith('{"round":')]
        # Cut after the first visit of the third round.
        first = json.loads(lines[begins[2] + 1])
        kept = [line for line in lines[begins[2] + 1 : begins[3]]
                if (json.loads(line)["split"], json.loads(line)["visit"]) == (first["split"], first["visit"])]
        lines = lines[: begins[2] + 1] + kept
        self.samples.write_text("\n".join(lines) + "\n")
        self.assert_exit(self.run_tune("tune", *undisturbed), DONE)
        after = self.samples.read_text().splitlines()
        self.assertEqual(after[: len(lines)], lines, "samples were lost")
        again = json.loads(after[len(lines)])
        self.assertEqual(set(again["splits"]), set(json.loads(lines[begins[2]])["splits"]))
        begun = sum(line.startswith('{"round":') for line in after)
        self.assertEqual(finished_rounds(after), begun - 1, "only the interrupted one lacks visits")
