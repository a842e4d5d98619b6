"""zf-tune bench --ranks: one model, updated by one process per rank, all at once."""

import json
import os
import pathlib
import re
import signal
import subprocess
import time
import unittest

import zf_cli
from zf_cli import DONE, INFEASIBLE, USAGE


class BenchRanks(zf_cli.CommandTest):
    def setUp(self):
        super().setUp()
        self.need_two_cpus()

    def bench(self, *arguments: str) -> dict:
        result = self.run_tune("bench", "--params", "1M", "--rounds", "1", "--format", "json", *arguments)
        self.assert_exit(result, DONE)
        return json.loads(result.stdout)

    def test_each_number_of_ranks_is_measured_bound_and_unbound(self):
        measured = self.bench("--ranks", "1,2")
        self.assertEqual([(row["ranks"], row["binding"]) for row in measured["rows"]],
                         [(1, "homes"), (1, "unbound"), (2, "homes"), (2, "unbound")])
        for row in measured["rows"]:
            self.assertEqual(row["params"], 1_000_000)
            self.assertGreaterEqual(row["threads"], row["ranks"])
            steps = sorted(sample["step_ns"] for sample in row["samples"])
            self.assertEqual(row["step_ns_median"], steps[1])
            self.assertAlmostEqual(row["step_bytes_per_s_median"], 28e15 / steps[1], delta=1e6)

    def test_a_state_format_has_its_bytes(self):
        for state, each in (("bf16", 20), ("split", 28), ("bf16+split", 20)):
            for pools in (("--ranks", "1"), ("--threads", "1")):
                measured = self.bench("--state", state, *pools)
                self.assertEqual((measured["state_format"], measured["step_bytes_per_param"]), (state, each))
                for row in measured.get("rows") or measured["pools"]:
                    steps = sorted(sample["step_ns"] for sample in row["samples"])
                    self.assertAlmostEqual(row["step_bytes_per_s_median"], each * 1e15 / steps[1], delta=1e6)
        refused = self.run_tune("bench", "--state", "int8")
        self.assert_exit(refused, USAGE)
        self.assertIn('zf-tune bench: --state: "int8" is not known', refused.stderr)

    def test_a_signal_ends_it_with_what_was_measured(self):
        for by, pools in ((signal.SIGINT, ("--threads", "1,2")), (signal.SIGTERM, ("--ranks", "1,2"))):
            for delay in (0.1, 0.5, 2, 8):
                result = self.interrupted(by, delay, *pools)
                if result.stdout:
                    break
            self.assertEqual(result.stderr, f"cut short by {by.name}: fewer samples than asked for\n")
            measured = json.loads(result.stdout)
            for row in measured.get("rows") or measured["pools"]:
                self.assertGreater(len(row["samples"]), 0)

    def interrupted(self, by: signal.Signals, delay: float, *pools: str) -> subprocess.CompletedProcess:
        """Returns a bench that a signal of its terminal ended, with results or before the first of them."""
        process = self.start_tune("bench", "--params", "1M", "--rounds", "1000", "--format", "json", *pools,
                                  start_new_session=True)
        time.sleep(delay)
        os.killpg(process.pid, by)
        result = self.finish(process)
        if result.returncode != -by:  # it was heard
            self.assert_exit(result, 128 + by)
            self.assertTrue(result.stdout or "interrupted before anything was measured" in result.stderr, result.stderr)
        return result

    def test_the_table_names_the_slowest_rank(self):
        result = self.run_tune("bench", "--params", "1M", "--rounds", "1", "--ranks", "2")
        self.assert_exit(result, DONE)
        self.assertIn("1M parameters", result.stdout)
        self.assertIn("slowest rank", result.stdout)

    def test_what_else_runs_on_the_cpus_is_named(self):
        cpu = min(os.sched_getaffinity(0))
        busy = subprocess.Popen(["taskset", "-c", str(cpu), "sh", "-c", "while :; do :; done"])
        self.addCleanup(busy.wait)
        self.addCleanup(busy.kill)
        measured = json.loads(self.run_tune("bench", "--threads", "1", "--params", "8M", "--format", "json").stdout)
        self.assertIn(busy.pid, [neighbour["pid"] for neighbour in measured["neighbours"]], measured["neighbours"])
        self.assertIn(measured["pools"][0]["disturbed"], (False, True))
        text = self.run_tune("bench", "--threads", "1", "--params", "8M")
        self.assert_exit(text, DONE)
        named = "On these CPUs also ran" in text.stdout  # the busiest, so not surely this one
        self.assertEqual("  disturbed\n" in text.stdout, named, text.stdout)

    def test_what_contradicts_itself_is_refused(self):
        for code, named, *arguments in (
                (USAGE, "--threads cannot be used with --ranks", "--threads", "1", "--ranks", "1"),
                (INFEASIBLE, "", "--ranks", "4096")):
            with self.subTest(arguments=arguments):
                self.assert_refused(self.run_tune("bench", "--params", "1M", *arguments), code, named)

    def test_half_of_the_memory_is_left(self):
        """A memory limit counts what the job already uses as free."""
        memory = pathlib.Path("/proc/meminfo").read_text()
        available = 1024 * int(re.search(r"MemAvailable: *(\d+)", memory)[1])
        too_many = available * 3 // 4 // 16
        limited = ["prlimit", f"--as={1 << 32}"]  # so that a mistake does no harm
        self.assert_refused(self.run_tune("bench", "--params", str(too_many), "--rounds", "1", before=limited),
                            INFEASIBLE, f"{too_many} parameters need", "at most half", "ask for")


if __name__ == "__main__":
    unittest.main()
