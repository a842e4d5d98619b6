"""zf-tune trial: the user's own command under a few plans."""

import json
import os
import signal
import subprocess
import time
import unittest

import zf_cli
from zf_cli import DONE, RUNTIME_ERROR, STALE, USAGE

# A job with a step that takes longer the more CPUs it trains on, however many there are; unbound it is slow.
JOB = r"""
cpus=$(nproc)
[ -n "$ZF_PLAN" ] || cpus=1000
for step in 9 0 0 0; do echo "step time: $((cpus * 100 + step)) ms"; done
"""
METRIC = "step time: ([0-9]+) ms"


class Trial(zf_cli.CommandTest):
    def setUp(self):
        super().setUp()
        self.need_two_cpus()
        self.made = self.make_plan()

    def trial(self, *arguments, job=JOB, **keywords):
        return self.run_tune("trial", "--metric", METRIC, *arguments, "--", "sh", "-c", job, **keywords)

    def test_the_best_split_becomes_the_plan(self):
        result = self.trial("--trials", "2", "-o", "won.json")
        self.assert_exit(result, DONE)
        plan = self.read_plan("won.json")
        self.assert_sound(plan)
        trial = plan["trial"]
        won = trial["candidates"][trial["winner"]]
        self.assertEqual(won["median"], min(candidate["median"] for candidate in trial["candidates"]))
        unbound = [candidate for candidate in trial["candidates"] if candidate["control"] == "unbound"]
        self.assertEqual([candidate["median"] for candidate in unbound], [100000])
        self.assertEqual([len(candidate["runs"]) for candidate in trial["candidates"]],
                         [2] * len(trial["candidates"]))
        self.assertNotIn(9, [value % 100 for candidate in trial["candidates"] for run in candidate["runs"]
                             for value in run])
        self.assertIn("The job itself", plan["choice"]["reason"])
        self.assertIn("Tried by the job itself", result.stdout)
        explained = self.run_tune("explain", "won.json")
        self.assertIn("unbound", explained.stdout)

    def test_with_a_dash_stdout_has_the_plan_alone(self):
        self.write_framework("torch")
        result = self.trial("--trials", "1", "-o", "-")
        self.assert_exit(result, DONE)
        self.assertIn("trial", json.loads(result.stdout))
        self.assertIn("Tried by the job itself", result.stderr)

    def test_a_stdout_that_takes_nothing_changes_the_exit_code_only(self):
        self.write_framework("torch")
        with open("/dev/full", "w") as full:
            process = subprocess.run(
                [zf_cli.BINARY, "trial", "--trials", "1", "-o", "won.json", "--metric", METRIC, "--", "sh", "-c", JOB],
                cwd=self.folder, env=zf_cli.clean_environment(), stdout=full, stderr=subprocess.PIPE, text=True,
                timeout=50, check=False)
        self.assertEqual(process.returncode, RUNTIME_ERROR, process.stderr)
        self.assertEqual(process.stderr.splitlines()[-2:],
                         ["wrote won.json", "zf-tune: cannot write standard output: No space left on device"])
        self.assertIn("trial", self.read_plan("won.json"))
        self.assertFalse((self.folder / "won.json.trial.json").exists())

    def write_framework(self, framework: str) -> None:
        self.made["workload"]["framework"] = framework
        (self.folder / "plan.json").write_text(json.dumps(self.made))

    def test_each_run_is_bound_by_its_plan(self):
        self.write_framework("native")
        job = 'grep Cpus_allowed_list /proc/self/status >>seen; echo "$ZF_PLAN" >>plans; ' + JOB
        self.assert_exit(self.trial("--trials", "1", "-q", job=job), DONE)
        bound = [line.split()[1] for line in (self.folder / "seen").read_text().splitlines()]
        training = self.made["ranks"][0]["training"]["cpus"]
        self.assertIn(training, bound)
        for path in filter(None, (self.folder / "plans").read_text().split()):
            self.assertFalse(os.path.exists(path), "its plan stayed behind")

    def test_each_run_has_its_home_unless_the_framework_is_native(self):
        self.write_framework("torch")
        if "ZF_BINDING" not in self.run_tune("exec", "--dry-run", "--", "true").stdout:
            self.skipTest("this zf-tune exec does not know of frameworks")
        job = 'echo "${ZF_BINDING:-unbound}" "$(nproc)" "$OMP_NUM_THREADS" >>seen; ' + JOB
        self.assert_exit(self.trial("--trials", "1", "-q", job=job), DONE)
        home = self.made["ranks"][0]["home"]
        seen = [line.split() for line in (self.folder / "seen").read_text().splitlines()]
        bound = [words for words in seen if words[0] == "zf-binding/1"]
        self.assertTrue(bound)
        for words in bound:
            self.assertIn(f"home={home['cpus']}", words)
            self.assertIn("started_on=home", words)
            self.assertIn("framework=torch", words)
            self.assertEqual(words[-1], str(home["threads"]))

    def test_a_torch_job_runs_under_the_plans_own_split_and_unbound(self):
        self.write_framework("torch")
        result = self.trial("--trials", "1")
        self.assert_exit(result, DONE)
        self.assertIn("each run is started on its whole home", result.stderr)
        plan = self.read_plan()
        _, unbound = plan["trial"]["candidates"]
        self.assertEqual(unbound["control"], "unbound")
        self.assertIn("No other binding was tried. Each split, unbound too, ran once", plan["choice"]["reason"])
        for side in ("training", "optimizer"):
            self.assertEqual(plan["ranks"][0][side]["cpus"], self.made["ranks"][0][side]["cpus"])

    def test_several_ranks_without_exec_are_warned_of(self):
        self.make_plan("--ranks", "2")
        result = self.trial("--trials", "1")
        self.assert_exit(result, DONE)
        self.assertEqual(result.stderr.count("warning: the command does not name zf-tune exec"), 1)
        self.assertTrue(any("does not name zf-tune exec" in warning for warning in self.read_plan()["warnings"]))

    def test_runs_of_another_trial_are_not_dropped_silently(self):
        """The first trial ends in its second run."""
        job = 'echo run >>runs; [ "$(wc -l <runs)" = 2 ] && exit 9; ' + JOB
        self.assert_exit(self.trial("--trials", "1", job=job), RUNTIME_ERROR)
        result = self.trial("--trials", "1", "--warmup", "2", job=job)
        self.assert_exit(result, DONE)
        self.assertIn("the 1 run in plan.json.trial.json cannot be used: made with another --warmup. The next run "
                      "overwrites that file", result.stderr)

    def test_a_binding_of_the_trial_itself_is_not_that_of_the_unbound_control(self):
        cpus = os.sched_getaffinity(0)
        job = '[ -n "$ZF_PLAN" ] || echo "${ZF_BINDING:-none}" >>seen; ' + JOB
        outer = zf_cli.binding_line(cpus, {min(cpus)})
        self.assert_exit(self.trial("--trials", "1", "-q", job=job, ZF_BINDING=outer), DONE)
        self.assertEqual((self.folder / "seen").read_text(), "none\n")

    def test_a_command_that_binds_itself_is_not_bound_before(self):
        (self.folder / "zf-tune").symlink_to(zf_cli.BINARY)
        result = self.run_tune("trial", "-q", "--trials", "1", "--metric", METRIC, "--", "./zf-tune", "exec", "--",
                               "sh", "-c", JOB)
        self.assert_exit(result, DONE)

    def test_first_value_and_time_left_are_told(self):
        result = self.trial("--trials", "1")
        self.assert_exit(result, DONE)
        self.assertRegex(result.stderr,
                         r"(?m)^--metric matches: the first value is \d+\n\[run 1 of \d, about .* left\] ")
        self.assertEqual(result.stderr.count("the first value"), 1)
        self.assertNotIn("first value", self.trial("--trials", "1", "-q").stderr)

    def test_a_split_that_cannot_win_is_not_repeated(self):
        job = '[ "$(nproc)" -gt 1 ] && ms=900 || ms=100; for i in 1 2 3 4 5 6 7; do echo "step time: $ms ms"; done'
        self.write_framework("native")
        result = self.trial("--trials", "2", job=job)
        self.assert_exit(result, DONE)
        runs = {candidate["median"]: len(candidate["runs"]) for candidate in self.read_plan()["trial"]["candidates"]}
        self.assertEqual(runs, {100: 2, 900: 1})
        self.assertIn("cannot win, with a median of 900: not repeated", result.stderr)
        self.assert_exit(self.trial("--trials", "2", "--run-to-end", job=job), DONE)
        runs = [len(candidate["runs"]) for candidate in self.read_plan()["trial"]["candidates"]]
        self.assertEqual(set(runs), {2})

    def test_a_run_that_cannot_win_is_stopped(self):
        """Once the job was fast, it goes on for a minute where it is slow; the trial looks after five seconds."""
        job = ('if [ "$(nproc)" -gt 1 ]; then ms=900; else ms=100; touch fast; fi; '
               'for i in 1 2 3 4 5 6 7; do echo "step time: $ms ms"; done; echo $$ >>pids; '
               '[ $ms = 100 ] || [ ! -e fast ] || sleep 60')
        self.write_framework("native")
        started = time.monotonic()
        result = self.trial("--trials", "2", job=job, timeout=60)
        self.assert_exit(result, DONE)
        self.assertIn("cannot win, with a median of 900: stopped", result.stderr)
        self.assertLess(time.monotonic() - started, 50)
        for pid in (self.folder / "pids").read_text().split():
            with self.assertRaises(ProcessLookupError):
                os.kill(int(pid), 0)

    def test_an_interrupted_trial_goes_on(self):
        """The third run of the first trial never ends by itself."""
        job = 'echo run >>runs; [ "$(wc -l <runs)" = 3 ] && sleep 60; ' + JOB
        process = self.start_tune("trial", "--trials", "1", "--metric", METRIC, "--", "sh", "-c", job)
        runs = self.folder / "runs"
        zf_cli.wait_until(lambda: runs.exists() and runs.read_text().count("run") == 3)
        process.send_signal(signal.SIGTERM)
        ended = self.finish(process)
        self.assert_exit(ended, 128 + signal.SIGTERM)
        self.assertIn("the same command goes on from here", ended.stderr)
        result = self.trial("--trials", "1", job=job)
        self.assert_exit(result, DONE)
        self.assertIn("going on with the 2 runs of an interrupted trial in plan.json.trial.json", result.stderr)
        candidates = self.read_plan()["trial"]["candidates"]
        self.assertEqual([len(candidate["runs"]) for candidate in candidates], [1] * len(candidates))
        self.assertEqual(runs.read_text().count("run"), 3 + len(candidates) - 2)
        self.assertFalse((self.folder / "plan.json.trial.json").exists())

    def test_a_failing_command_is_told_with_its_last_lines(self):
        before = self.read_plan()
        result = self.trial(job="echo first; echo the reason >&2; exit 9")
        self.assert_exit(result, RUNTIME_ERROR)
        said = result.stderr.splitlines()
        self.assertIn("ended with status 9", said.pop())
        self.assertEqual(said[-3:], ["The command's last lines:", "  | first", "  | the reason"])
        self.assertEqual(self.read_plan(), before)

    def test_a_command_that_says_nothing_of_the_kind(self):
        result = self.trial(job="echo nothing here")
        self.assert_exit(result, RUNTIME_ERROR)
        self.assertIn("nothing that --metric", result.stderr)
        self.assertIn("nothing here", result.stderr)

    def test_a_match_that_is_no_positive_number(self):
        result = self.run_tune("trial", "--metric", "loss (.*)", "--", "sh", "-c", "echo loss nan")
        self.assert_exit(result, RUNTIME_ERROR)
        self.assertIn("printed nan where --metric", result.stderr)

    def test_a_warmup_that_leaves_nothing(self):
        result = self.trial("--warmup", "4")
        self.assert_exit(result, RUNTIME_ERROR)
        self.assertIn("printed 4 values, and --warmup 4 discards all", result.stderr)

    def test_an_empty_match_is_called_that(self):
        result = self.run_tune("trial", "--metric", "loss ([0-9]*)", "--", "sh", "-c", "echo loss nan")
        self.assert_exit(result, RUNTIME_ERROR)
        self.assertIn("printed '' where --metric", result.stderr)

    def test_a_warmup_that_would_leave_nothing_of_the_values(self):
        self.assert_refused(self.trial("--warmup", "4", "--values", "4"), USAGE, "--warmup 4", "--values 4")

    def test_a_long_line_is_no_trouble(self):
        job = "head -c 1000000 /dev/zero | tr '\\0' x; echo; " + JOB
        self.assert_exit(self.trial("-q", "--trials", "1", job=job), DONE)
        for candidate in self.read_plan()["trial"]["candidates"]:
            self.assertEqual([len(run) for run in candidate["runs"]], [3])

    def test_one_that_hangs_is_ended(self):
        result = self.trial("--timeout", "3s", job="echo hanging; sleep 60")
        self.assert_exit(result, RUNTIME_ERROR)
        self.assertIn("--timeout", result.stderr)
        self.assertIn("hanging", result.stderr)

    def test_a_job_that_needs_a_plan_goes_on_without_the_unbound_control(self):
        self.assert_exit(self.trial("--trials", "1", "-q", job='[ -n "$ZF_PLAN" ] || exit 1; ' + JOB), DONE)
        plan = self.read_plan()
        self.assertTrue(any("the unbound control is missing" in warning for warning in plan["warnings"]))
        self.assertNotIn("unbound", [candidate["control"] for candidate in plan["trial"]["candidates"]])

    def test_what_is_missing_or_wrong(self):
        self.assert_refused(self.run_tune("trial", "--metric", "x"), USAGE, "no command")
        self.assert_refused(self.run_tune("trial", "--", "true"), USAGE, "--metric is missing")
        self.assert_refused(self.run_tune("trial", "--metric", "(", "--", "true"), USAGE, "--metric (")
        self.assert_refused(self.run_tune("trial", "--metric", "x", "-p", "no.json", "--", "true"), USAGE, "no.json")
        self.assert_refused(self.run_tune("trial", "--metric", "x", "--trials", "0", "--", "true"), USAGE, "trials")

    def test_a_plan_of_another_machine(self):
        self.make_plan("--topology", "pack:2 core:4 pu:2", name="other.json")
        self.assert_refused(self.trial("-p", "other.json"), STALE, "other.json is for another class of machine")

    def test_sigterm_ends_the_job_and_writes_nothing_too_early(self):
        before = self.read_plan()
        process = self.start_tune("trial", "--metric", METRIC, "--", "sh", "-c", "echo $$ >pid; sleep 60")
        pid_file = self.folder / "pid"
        zf_cli.wait_until(lambda: pid_file.exists() and pid_file.read_text().strip())
        process.send_signal(signal.SIGTERM)
        ended = self.finish(process)
        self.assert_exit(ended, 128 + signal.SIGTERM)
        self.assertIn("interrupted", ended.stderr)
        self.assertEqual(self.read_plan(), before)
        with self.assertRaises(ProcessLookupError):
            os.kill(int(pid_file.read_text()), 0)

    def test_ctrl_c_while_the_output_is_looked_at_keeps_the_rounds_before(self):
        # From the second run of a split on, what it prints takes long to look at.
        job = JOB + """
            name=ran$(nproc)$ZF_PLAN; name=$(echo $name | tr / _)
            [ -e "$name" ] && { head -c 4000 /dev/zero | tr '\\0' x; echo; touch slow; }
            touch "$name"
        """
        process = self.start_tune("trial", "--trials", "2", "--metric", f"{METRIC}|(?:(?:x+x+)+y)", "--", "sh", "-c",
                                  job, start_new_session=True)
        zf_cli.wait_until((self.folder / "slow").exists)
        time.sleep(0.5)
        os.killpg(process.pid, signal.SIGINT)
        self.assert_exit(self.finish(process), 128 + signal.SIGINT)
        self.assertIn("cut short by SIGINT", self.read_plan()["choice"]["reason"])


if __name__ == "__main__":
    unittest.main()
