"""zf-tune check and explain: is a plan still right here, and why is it what it is."""

import json
import os
import re
import statistics
import time

from permissions import need_namespaces
from zf_cli import DONE, SOURCE, STALE, USAGE, CommandTest, parse_cpus


class Check(CommandTest):
    def test_fresh_plan_fits(self):
        self.make_plan()
        self.assert_exit(self.run_tune("check", "plan.json"), DONE)

    def test_plan_of_another_machine_is_stale_and_every_difference_is_named(self):
        self.make_plan("--topology", "pack:4 [numa(memory=64GiB)] core:64 pu:2")
        result = self.run_tune("check", "plan.json")
        self.assert_exit(result, STALE)
        self.assertGreaterEqual(len((result.stdout + result.stderr).splitlines()), 2)
        for word in ["packages", "cores"]:
            self.assertIn(word, result.stdout + result.stderr)

    def test_what_a_plan_says_cannot_drive_the_terminal(self):
        plan = self.make_plan()
        plan["machine"]["model"] = "CPU\x1b[31m\u202e\u2066\u2028\u061c\u009b2J\nFORGED\x7f" + 100000 * "x"
        (self.folder / "plan.json").write_text(json.dumps(plan))
        result = self.run_tune("check", "plan.json")
        self.assert_exit(result, STALE)
        self.assertEqual(re.findall("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\u2066\u2028\u061c]", result.stdout), [])
        self.assertIn("FORGED", result.stdout)
        self.assertNotIn("\nFORGED", result.stdout)
        self.assertLess(len(result.stdout), 5000)

    def test_narrower_allocation_makes_a_plan_stale(self):
        self.need_two_cpus()
        cpus = sorted(os.sched_getaffinity(0))
        self.make_plan()
        result = self.run_tune("check", "plan.json", before=["taskset", "-c", str(cpus[0])])
        self.assert_exit(result, STALE)
        self.assertIn(str(cpus[1]), result.stdout + result.stderr)

    def test_a_confined_process_may_check_the_whole_node(self):
        """As slurmd where CpuSpecList reserves a CPU: the node is the same, whatever this process may use of it."""
        self.need_two_cpus()
        confined = ["taskset", "-c", str(min(os.sched_getaffinity(0)))]
        self.make_plan()
        result = self.run_tune("check", "--whole-node", "plan.json", before=confined)
        self.assert_exit(result, DONE)
        self.assertEqual(result.stdout, "plan.json: fits this machine\n")
        self.make_plan("--topology", "pack:4 [numa(memory=64GiB)] core:64 pu:2")
        self.assert_exit(self.run_tune("check", "--whole-node", "plan.json", before=confined), STALE)

    def test_another_machine_as_data_may_be_checked(self):
        node = "pack:2 [numa(memory=64GiB)] core:8 pu:1"
        self.make_plan("--topology", node)
        self.assert_exit(self.run_tune("check", "--topology", node, "plan.json"), DONE)

    def test_gpus_may_be_left_out(self):
        node = "pack:2 [numa(memory=64GiB)] core:8 pu:1"
        plan = self.make_plan("--topology", node)
        plan["ranks"][0]["gpu"] = {"pci": "0000:3b:00.0", "node": 0}
        (self.folder / "plan.json").write_text(json.dumps(plan))
        result = self.run_tune("check", "--topology", node, "plan.json")
        self.assert_exit(result, STALE)
        self.assertIn("GPU 0000:3b:00.0 of rank 0 is not here", result.stdout)
        self.assert_exit(self.run_tune("check", "--no-gpus", "--topology", node, "plan.json"), DONE)

    def test_homes_that_this_version_would_cut_better_are_no_fault(self):
        node = str(SOURCE / "tests/machines/mi250x.xml")
        plan = self.make_plan("--topology", node, "--ranks", "8")
        fits = self.run_tune("check", "--topology", node, "plan.json")
        self.assert_exit(fits, DONE)
        self.assertNotIn("differently", fits.stdout)
        ranks = plan["ranks"]
        for field in ["home", "training", "optimizer"]:  # as a former version did
            ranks[0][field], ranks[1][field] = ranks[1][field], ranks[0][field]
        (self.folder / "plan.json").write_text(json.dumps(plan))
        crossed = self.run_tune("check", "--topology", node, "plan.json")
        self.assert_exit(crossed, DONE)
        self.assertIn("the worst rank has 0 cores near its GPU, and could have 8", crossed.stdout)
        self.assertIn("fits this machine", crossed.stdout)
        self.run_tune("plan", "--topology", node, "--from", "plan.json", "-o", "plan.json")
        self.assertNotIn("differently", self.run_tune("check", "--topology", node, "plan.json").stdout)

    def test_explain_gives_the_reason_and_the_cpus(self):
        plan = self.make_plan("--topology", "pack:2 [numa(memory=64GiB)] core:8 pu:1", "--ranks", "2")
        result = self.run_tune("explain", "plan.json")
        self.assert_exit(result, DONE)
        self.assertIn(plan["choice"]["reason"], " ".join(result.stdout.split()))
        for rank in plan["ranks"]:
            self.assertIn(rank["training"]["cpus"], result.stdout)
            self.assertIn(rank["optimizer"]["cpus"], result.stdout)
        self.assertIn("mode overlap, update interval 1, framework unknown", " ".join(result.stdout.split()))

    def test_explain_homes_says_what_each_rank_got(self):
        node = str(SOURCE / "tests/machines/mi250x.xml")
        self.make_plan("--topology", node, "--ranks", "2")
        self.assertNotIn("near its GPU", self.run_tune("explain", "plan.json").stdout)
        result = self.run_tune("explain", "--homes", "--topology", node, "plan.json")
        self.assert_exit(result, DONE)
        lines = [line.split() for line in result.stdout.splitlines()]
        self.assertIn(["0", "8", "32", "3", "1", "32", "4"], [line[:7] for line in lines])
        self.assertIn("GPU's CPUs, GPU's package, packages, equal sizes, L3 groups  "
                      "1 NUMA node more than 32 cores need", result.stdout)
        other = "pack:2 [numa(memory=64GiB)] core:8 pu:1"
        refused = self.run_tune("explain", "--homes", "--topology", other, "plan.json")
        self.assert_exit(refused, STALE)
        self.assertIn("--homes: the plan is not for", refused.stderr)

    def test_explain_homes_of_a_machine_that_is_a_folder(self):
        node = self.make_node(4)
        self.make_plan("--ranks", "2", *node)
        result = self.run_tune("explain", "--homes", *node, "plan.json")
        self.assert_exit(result, DONE)
        self.assertIn("every wish", result.stdout)
        refused = self.run_tune("explain", *node, "plan.json")
        self.assert_refused(refused, USAGE, "--sysroot names the machine of --homes and --report")


class Bandwidth(CommandTest):
    """Against evidence made 2,000 times slower, and fifty times faster, than this machine is. A pass of the few
    parameters takes less than a millisecond on an idle machine, and several turns of the scheduler on a busy one."""

    def measured_plan(self, factor: float) -> None:
        self.assert_exit(self.run_tune("tune", "-q", "--budget", "500ms", "--params", "1M"), DONE)
        plan = self.read_plan()
        for name in ("step_ns", "roofline_ns"):
            middle = statistics.median(sample[name] for sample in plan["evidence"]["samples"])
            for sample in plan["evidence"]["samples"]:
                sample[name] = int(middle * factor)  # all alike: what spreads could not tell
        (self.folder / "plan.json").write_text(json.dumps(plan))

    def test_bandwidth_as_planned(self):
        self.measured_plan(2000)
        result = self.run_tune("check", "--bandwidth", "plan.json")
        self.assert_exit(result, DONE)
        self.assertIn("as fast as", result.stdout)

    def test_bandwidth_of_a_slow_node_is_named_in_time(self):
        self.measured_plan(1 / 50)
        started = time.monotonic()
        result = self.run_tune("check", "--bandwidth", "plan.json")
        self.assertLess(time.monotonic() - started, 20, "the deadline is 5 s, and a busy machine is late")
        self.assert_exit(result, STALE)
        self.assertRegex(result.stdout, "^plan.json: .* is slow: roofline .* GB/s, .* % of the")

    def test_a_process_that_may_not_use_the_optimizers_cpus_cannot_tell(self):
        self.need_two_cpus()
        self.measured_plan(1 / 50)
        first, *others = sorted(parse_cpus(self.read_plan()["ranks"][0]["optimizer"]["cpus"]))
        elsewhere = others[0] if others else max(os.sched_getaffinity(0) - {first})
        for options, code in (((), DONE), (("--strict",), STALE)):
            result = self.run_tune("check", "--bandwidth", "--whole-node", *options, "plan.json",
                                   before=["taskset", "-c", str(elsewhere)])
            self.assert_exit(result, code)
            self.assertRegex(result.stdout, "^plan.json: cannot tell whether .* is slow: this process is confined: it "
                                            f"may not use CPUs? [0-9,-]*{first}.*, outside the affinity mask")
        slow = self.run_tune("check", "--bandwidth", "--whole-node", "plan.json")
        self.assert_exit(slow, STALE)
        self.assertIn(" is slow: roofline", slow.stdout)

    def test_what_could_be_better_is_said_beside_the_bandwidth(self):
        """A node that isolates a CPU of the plan's homes."""
        self.need_two_cpus()
        file = "/sys/devices/system/cpu/isolated"
        need_namespaces("--mount", at=file)
        self.measured_plan(2000)
        (self.folder / "isolated").write_text(f"{max(os.sched_getaffinity(0))}\n")
        isolated = ["unshare", "--mount", "sh", "-c", f'mount --bind isolated {file} && exec "$@"', "sh"]
        for options in ((), ("--bandwidth",)):
            result = self.run_tune("check", *options, "plan.json", before=isolated)
            self.assert_exit(result, DONE)
            note, fits = result.stdout.splitlines()
            self.assertIn("`zf-tune plan --from` leaves them out of the homes", note)
            self.assertIn("as fast as" if options else "fits this machine", fits)
        node = self.run_tune("check", "--bandwidth", "--whole-node", "plan.json", before=isolated)
        self.assertNotIn("isolate", node.stdout, "the health check would call it a difference")

    def test_strict_needs_bandwidth(self):
        self.make_plan()
        self.assert_refused(self.run_tune("check", "--strict", "plan.json"), USAGE,
                            "--strict does nothing without --bandwidth", "--bandwidth")

    def test_evidence_that_spreads_cannot_tell(self):
        self.measured_plan(1)
        plan = self.read_plan()
        samples = plan["evidence"]["samples"]
        chosen = next(sample for sample in samples if sample["candidate"] == plan["choice"]["candidate"])
        samples += [chosen | {"roofline_ns": chosen["roofline_ns"] * (1 + 500 * (i % 2))}
                    for i in range(2 * len(samples))]
        plan["evidence"]["elements_per_rank"] = 10**13  # no node has the memory to measure that, and none needs to
        (self.folder / "plan.json").write_text(json.dumps(plan))
        for options, code in (((), DONE), (("--strict",), STALE)):
            result = self.run_tune("check", "--bandwidth", *options, "plan.json")
            self.assert_exit(result, code)
            self.assertRegex(result.stdout, "^plan.json: cannot tell whether .* is slow: spread [0-9]+ %")

    def test_bandwidth_needs_evidence_and_this_machine(self):
        self.make_plan()
        self.assert_refused(self.run_tune("check", "--bandwidth", "plan.json"), USAGE, "no measurement", "tune")
        elsewhere = "pack:2 [numa(memory=1GiB)] core:2 pu:1"
        self.assert_refused(self.run_tune("check", "--bandwidth", "--topology", elsewhere, "plan.json"), USAGE,
                            "not this machine")
