"""CPUs that neighbours share: a CPU quota for a part of them. Pods of a made-up node, and a real control group."""

import json
import os
import pathlib
import unittest

from node_folder import NodeFolder, eight_gpus, nodes_of, two_packages
from zf_cli import BINARY, DONE, INFEASIBLE, USAGE, CommandTest, parse_cpus, print_cpus, remove_group

PACKAGES = two_packages(32)
NODES = nodes_of(PACKAGES)
BUILD = pathlib.Path(BINARY).parents[1]
QUOTA_FILES = {"proc/self/cgroup": "0::/pod",
               "proc/self/mountinfo": "30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw",
               "sys/fs/cgroup/pod/cpu.max": "800000 100000"}


class TwoPodsOfANode(CommandTest):
    """Eight CPUs' worth of time each; pod A sees GPU 0, pod B GPU 1. Pod A takes no core from pod B."""

    def setUp(self):
        super().setUp()
        for pod, minor in (("a", 0), ("b", 1)):
            NodeFolder(PACKAGES, NODES, eight_gpus(NODES), [f"/dev/nvidia{minor}"]).write(self.folder / pod)
            self.write_files({f"{pod}/{path}": text + "\n" for path, text in QUOTA_FILES.items()})
        if not json.loads(self.run_tune("probe", "--sysroot", "a", "--format", "json").stdout)["gpus"]:
            self.skipTest("this hwloc finds no PCI devices in a folder")

    def test_each_has_the_whole_node_of_its_gpu_and_as_many_threads_as_its_quota_pays_for(self):
        for pod, minor in (("a", 0), ("b", 1)):
            plan = self.make_plan("--sysroot", pod, "--ranks", "1", "--mode", "wait")
            self.assert_sound(plan)
            self.assertTrue(plan["allocation"]["shared_cpus"])
            self.assertIn("Neighbours share these CPUs", plan["choice"]["reason"])
            rank = plan["ranks"][0]
            self.assertEqual(rank["gpu"]["minor"], minor)
            for side in ("home", "training", "optimizer"):
                self.assertEqual((rank[side]["cpus"], rank[side]["threads"]), (NODES[0], 8))

    def test_the_plan_of_one_fits_the_other(self):
        self.make_plan("--sysroot", "a", "--ranks", "1")
        self.assert_exit(self.run_tune("check", "--sysroot", "b", "--no-gpus"), DONE)
        result = self.run_tune("doctor", "--sysroot", "b", "--plan", "plan.json")
        self.assertIn("neighbours share these CPUs", result.stdout)
        moved = self.make_plan("--sysroot", "b", "--from", "plan.json", name="moved.json")
        self.assertEqual(moved["ranks"][0]["home"], self.read_plan()["ranks"][0]["home"])

    def test_a_plan_that_pins_is_told_of_neighbours(self):
        own = self.make_plan("--sysroot", "a", "--ranks", "1", "--allowed", "0-7")
        self.assertNotIn("shared_cpus", own["allocation"], "--allowed names the job's own CPUs")
        self.assertNotIn("threads", own["ranks"][0]["optimizer"])
        result = self.run_tune("doctor", "--sysroot", "a", "--plan", "plan.json")
        self.assertIn("the plan pins threads to some of them", " ".join(result.stdout.split()))

    def test_what_cannot_be_said_to_others_is_refused_on_one_line(self):
        plan = ("plan", "--sysroot", "a", "--ranks")
        result = self.run_tune(*plan, "1", "--for", "deepspeed")
        self.assert_refused(result, INFEASIBLE, "neighbours share", "--allowed")
        self.make_plan("--sysroot", "a", "--ranks", "2")
        for consumer in ("deepspeed", "mpirun"):
            self.assert_refused(self.run_tune("export", "plan.json", "--for", consumer), INFEASIBLE, "neighbours share")
        for consumer in ("taskset", "numactl", "slurm", "hwloc", "torchrun"):
            self.assert_exit(self.run_tune("export", "plan.json", "--for", consumer), DONE)


class TwoPodsInASharedPool(CommandTest):
    """The static policy has given away CPUs 2-9 and 66-73. What is left is the cpuset of all pods with a quota."""

    POOL = "0-1,10-65,74-127"

    def setUp(self):
        super().setUp()
        for pod, minor in (("a", 0), ("b", 1)):
            self.make_pod(pod, "800000 100000", [f"/dev/nvidia{minor}"])
        if not json.loads(self.run_tune("probe", "--sysroot", "a", "--format", "json").stdout)["gpus"]:
            self.skipTest("this hwloc finds no PCI devices in a folder")

    def make_pod(self, pod: str, quota: str, device_nodes=("/dev/nvidia0",), cpus=POOL):
        NodeFolder(PACKAGES, NODES, eight_gpus(NODES), list(device_nodes)).write(self.folder / pod)
        files = QUOTA_FILES | {"sys/fs/cgroup/pod/cpu.max": quota, "sys/fs/cgroup/pod/cpuset.cpus.effective": cpus,
                               "proc/self/status": f"Cpus_allowed_list:\t{cpus}\nMems_allowed_list:\t0-1"}
        self.write_files({f"{pod}/{path}": text + "\n" for path, text in files.items()})

    def near_gpus(self) -> str:
        return print_cpus(parse_cpus(self.POOL) & parse_cpus(NODES[0]))

    def test_both_have_all_of_it_that_is_near_their_gpus(self):
        for pod in "ab":
            plan = self.make_plan("--sysroot", pod, "--ranks", "1", "--mode", "overlap")
            self.assert_sound(plan)
            self.assertTrue(plan["allocation"]["shared_cpus"])
            rank = plan["ranks"][0]
            for side in ("home", "training", "optimizer"):
                self.assertEqual(rank[side]["cpus"], self.near_gpus())
            self.assertEqual((rank["training"]["threads"], rank["optimizer"]["threads"]), (4, 4))

    def test_a_cpuset_with_no_quota_or_one_for_nearly_all_of_it_is_the_pods_own(self):
        for quota, notes in (("max 100000", 0), ("1600000 100000", 0), ("1500000 100000", 1)):
            with self.subTest(quota=quota):
                self.make_pod("c", quota, cpus="2-9,66-73")
                plan = self.make_plan("--sysroot", "c", "--ranks", "1", "--mode", "overlap")
                self.assert_sound(plan)
                self.assertNotIn("shared_cpus", plan["allocation"])
                said = " ".join(plan["allocation"].get("notes", []))
                self.assertEqual(said.count("so they count as this job's own"), notes, said)

    def test_allowed_makes_the_cpus_the_jobs_own_also_where_it_names_all_and_where_the_plan_moves(self):
        named = self.make_plan("--sysroot", "a", "--ranks", "1", "--allowed", self.POOL)
        moved = self.make_plan("--sysroot", "b", "--from", "plan.json", name="moved.json")
        for plan in (named, moved):
            self.assert_sound(plan)
            self.assertNotIn("shared_cpus", plan["allocation"])
            self.assertTrue(plan["intent"]["own_cpus"])
            self.assertNotIn("threads", plan["ranks"][0]["optimizer"])
        self.assertNotIn("neighbours", self.run_tune("check", "--sysroot", "a", "--no-gpus").stdout)
        said = " ".join(self.run_tune("doctor", "--sysroot", "a", "--plan", "plan.json").stdout.split())
        self.assertIn("note: neighbours: ", said)
        self.assertIn("because --allowed said that they are its own", said)
        self.make_plan("--sysroot", "a", "--ranks", "1", "--allowed", self.POOL, "--for", "deepspeed")

    def test_allowed_makes_them_own_also_where_no_quota_was_and_the_plan_keeps_that(self):
        self.make_pod("whole", "max 100000")
        named = self.make_plan("--sysroot", "whole", "--ranks", "1", "--allowed", self.POOL)
        for keep in (self.make_plan("--sysroot", "a", "--from", "plan.json", name="moved.json"),
                     self.make_plan("--sysroot", "whole", "--from", "plan.json", name="again.json")):
            self.assert_sound(keep)
            self.assertTrue(keep["intent"]["own_cpus"])
            self.assertNotIn("shared_cpus", keep["allocation"])
        self.assertEqual(keep, named)
        said = " ".join(self.run_tune("doctor", "--sysroot", "a", "--plan", "plan.json").stdout.split())
        self.assertIn("because --allowed said that they are its own", said)

    def test_doctor_says_in_a_line_whether_the_cpus_are_the_pods_own_and_near_its_gpu(self):
        far = "34-41,98-105"
        for cpus, quota, line in (
                (self.POOL, "800000 100000", "shared by quota (/sys/fs/cgroup/pod/cpu.max pays for 8 of 112); near"),
                ("2-9,66-73", "max 100000", "this job's own (no quota); near its GPU"),
                ("2-9,66-73", "1600000 100000", "this job's own (the quota pays for them); near its GPU"),
                ("0-127", "max 100000", "all of this node's, without a quota; near its GPU"),
                (far, "max 100000", "this job's own (no quota); far from GPU 0000:10:00.0")):
            with self.subTest(cpus=cpus, quota=quota):
                self.make_pod("c", quota, cpus=cpus)
                result = self.run_tune("doctor", "--sysroot", "c")
                self.assert_exit(result, DONE)
                self.assertTrue(" ".join(result.stdout.split()).startswith(f"CPUs {cpus}: {line}"), result.stdout)
                self.assertEqual("warning: far-gpus: " in result.stdout, cpus == far)
        self.assertIn("topologyManagerPolicy", result.stdout)

    def test_publish_keeps_the_jobs_own_cpus(self):
        named = self.make_plan("--sysroot", "a", "--ranks", "1", "--allowed", self.POOL)
        (self.folder / "plans").mkdir()
        (self.folder / "plan.json").rename(self.folder / f"plans/{named['machine']['fingerprint']}.json")
        self.write_files({"b/sys/devices/system/cpu/isolated": "12\n"})
        result = self.run_tune("publish", "--sysroot", "b", "--plans", "plans", "--to", "-")
        self.assert_exit(result, DONE)
        published = json.loads(result.stdout)
        self.assert_sound(published)
        self.assertNotEqual(published["ranks"], named["ranks"], "CPU 12 is left out")
        self.assertNotIn("shared_cpus", published["allocation"])
        self.assertTrue(published["intent"]["own_cpus"])


class JobInARealControlGroup(CommandTest):
    """A quota of one CPU, and all CPUs of the machine."""

    def setUp(self):
        super().setUp()
        self.need_two_cpus()
        if len(os.sched_getaffinity(0)) != os.cpu_count():
            self.skipTest("an affinity mask keeps CPUs from this process, so they count as its own")
        self.group = self.make_group("cpu.cfs_quota_us", "100000")

    def make_group(self, file: str, quota: str) -> pathlib.Path:
        group = pathlib.Path(f"/sys/fs/cgroup/cpu/zf-shared-{os.getpid()}")
        try:
            group.mkdir()
        except OSError as error:
            raise unittest.SkipTest(f"no control group can be made here ({error}): needs root and cgroup v1") from None
        self.addCleanup(remove_group, group)
        (group / file).write_text(quota)
        return group

    def enter(self):
        (self.group / "cgroup.procs").write_text("0")

    def run_inside(self, *arguments: str, **keywords):
        return self.run_tune(*arguments, preexec_fn=self.enter, **keywords)

    def assert_shares(self, plan: dict) -> None:
        self.assert_sound(plan)
        everything = os.sched_getaffinity(0)
        self.assertTrue(plan["allocation"]["shared_cpus"])
        rank = plan["ranks"][0]
        for side in ("home", "training", "optimizer"):
            self.assertEqual(parse_cpus(rank[side]["cpus"]), everything)
        self.assertEqual(rank["optimizer"]["threads"], 1)

    def test_plan_exec_and_runtime_pin_nothing(self):
        self.assert_exit(self.run_inside("plan"), DONE)
        plan = self.read_plan()
        self.assert_shares(plan)
        result = self.run_inside("exec", "--plan", "plan.json", "--", str(BUILD / "bin/test-rank"))
        self.assert_exit(result, DONE)
        self.assertIn("neighbours share", result.stderr)
        self.assertIn("1 rank has the time of 1 CPU", result.stderr, "not: it has 1 core")
        report = json.loads(result.stdout)
        everything = plan["ranks"][0]["home"]["cpus"]
        self.assertEqual(report["training"], everything)
        self.assertEqual(set(report["threads"]), {everything}, "a thread of the pool is pinned")

    def test_exec_obeys_a_plan_that_says_the_cpus_are_the_jobs_own(self):
        everything = ",".join(map(str, sorted(os.sched_getaffinity(0))))
        plan = self.make_plan("--allowed", everything, "--mode", "overlap", preexec_fn=self.enter)
        self.assertNotIn("shared_cpus", plan["allocation"])
        result = self.run_inside("exec", "--plan", "plan.json", "--", str(BUILD / "bin/test-rank"))
        self.assert_exit(result, DONE)
        self.assertNotIn("neighbours", result.stderr)
        pool = plan["ranks"][0]["optimizer"]["cpus"]
        self.assertEqual(json.loads(result.stdout)["threads"].count(pool), 1 + len(parse_cpus(pool)), "and the watch")

    def test_exec_obeys_it_also_where_the_plan_was_made_without_a_quota_and_has_to_be_fitted(self):
        everything = ",".join(map(str, sorted(os.sched_getaffinity(0))))
        for options, own in ((("--allowed", everything), True), ((), False)):
            self.make_plan(*options, "--mode", "overlap")
            result = self.run_inside("exec", "--plan", "plan.json", "--dry-run", "--", "true")
            self.assert_exit(result, DONE)
            self.assertEqual("neighbours" not in result.stdout, own, result.stdout)

    def test_a_mask_that_exec_or_bind_has_set_says_nothing_of_who_has_the_cpus(self):
        cpus = sorted(os.sched_getaffinity(0))
        home, everything = str(cpus[-1]), print_cpus(set(cpus))
        bound = {"ZF_BINDING": f"zf-binding/1 rank=0 framework=unknown started_on=home home={home} home_threads=1 "
                               f"training={home} threads=1 optimizer={home} mems= policy=preferred shared=yes"}
        for variables, is_shared in ((bound | {"ZF_ALLOWED": everything}, True), ({}, False),
                                     (bound | {"ZF_ALLOWED": home}, False)):
            plan = self.make_plan(before=["taskset", "-c", home], preexec_fn=self.enter, **variables)
            self.assertEqual(plan["allocation"].get("shared_cpus", False), is_shared, variables)
            self.assertEqual(plan["ranks"][0]["home"]["cpus"], home)

    def test_homes_within_some_cpus_do_not_make_them_the_jobs_own(self):
        one = str(min(os.sched_getaffinity(0)))
        for option, is_shared in (("--within", True), ("--allowed", False)):
            plan = self.make_plan(option, one, preexec_fn=self.enter)
            self.assertEqual(plan["allocation"].get("shared_cpus", False), is_shared)
            self.assertEqual(plan["ranks"][0]["home"]["cpus"], one)
        self.assert_refused(self.run_tune("plan", "--within", one, "--allowed", one), USAGE, "--within and --allowed")

    def test_exec_tells_of_neighbours_if_the_plan_pins(self):
        self.make_plan(before=["taskset", "-c", str(min(os.sched_getaffinity(0)))])
        (self.group / "cpu.cfs_quota_us").write_text("150000")
        result = self.run_inside("exec", "--plan", "plan.json", "--", "true")
        self.assert_exit(result, DONE)
        self.assertIn("the plan pins threads to some of them", result.stderr)
        self.assertIn("zf-tune plan --from", result.stderr)

    def test_tune_measures_it_so(self):
        self.assert_exit(self.run_inside("tune", "--budget", "2s", "--params", "1M"), DONE)
        self.assert_shares(self.read_plan())

    def test_the_plan_fits_where_it_was_made(self):
        self.assert_exit(self.run_inside("plan"), DONE)
        self.assert_exit(self.run_inside("check"), DONE)


if __name__ == "__main__":
    unittest.main()
