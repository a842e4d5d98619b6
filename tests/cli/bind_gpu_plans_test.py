"""zf_runtime.bind() with a plan, on a node with GPUs: a process has the home that the plan gives to its GPU."""

import json
import os

from bound_gpus import BoundGpusTest
from node_folder import Device


class BindGpuPlans(BoundGpusTest):
    def test_the_only_rank_of_a_plan_has_the_plans_gpu(self):
        """Another process may have another GPU, and the same plan."""
        self.run_mounted("plan", "-q", "--ranks", "1")
        plan = {"ZF_PLAN": "plan.json"}
        self.assertTrue(self.bind(CUDA_VISIBLE_DEVICES="0", **plan)["bound"])
        self.assertTrue(self.bind(**plan)["bound"])
        self.assertTrue(self.bind(0, CUDA_VISIBLE_DEVICES="1", **plan)["bound"])
        other = self.bind(CUDA_VISIBLE_DEVICES="1", **plan)
        self.assertFalse(other["bound"], other["text"])
        self.assertIn("has GPU 0000:10:00.0, and this process has 0000:20:00.0: give rank=", other["errors"][0])
        without = self.read_plan()
        del without["ranks"][0]["gpu"]
        (self.folder / "plan.json").write_text(json.dumps(without))
        nobodys = self.bind(CUDA_VISIBLE_DEVICES="1", **plan)
        self.assertFalse(nobodys["bound"], nobodys["text"])
        self.assertIn("has no GPU, this process has 0000:20:00.0, and others may have the others", nobodys["errors"][0])

    def test_pods_with_a_gpu_each_share_no_cpu_without_a_list(self):
        """Each is rank 0 of 1, by variables or arguments; also if a plan is for the other's GPU, or for both."""
        self.run_mounted("plan", "-q", "--ranks", "2")
        (self.folder / "plan.json").rename(self.folder / "both.json")
        self.run_mounted("plan", "-q", "--ranks", "1")
        for gpu in (0, 1):
            nodes = {"OPEN": f"nvidiactl nvidia{gpu}", "REFUSED": f"nvidia{1 - gpu}"}
            self.assert_same(self.bind(LOCAL_RANK="0", LOCAL_WORLD_SIZE="1", **nodes), gpu)
            self.assert_same(self.bind(0, 1, **nodes), gpu)
            self.assert_same(self.bind(ZF_PLAN="both.json", **nodes), gpu)
            only = self.bind(ZF_PLAN="plan.json", **nodes)
            self.assertEqual(only["bound"], gpu == 0, only["text"])
        self.assertIn("has GPU 0000:10:00.0, and this process has 0000:20:00.0: give rank=", only["errors"][0])

    def test_a_plan_gives_the_rank_of_the_gpu(self):
        self.run_mounted("plan", "-q", "--ranks", "2")
        for gpu in (0, 1):
            self.assert_same(self.bind(CUDA_VISIBLE_DEVICES=str(gpu), ZF_PLAN="plan.json"), gpu)
        said = self.bind(ZF_PLAN="plan.json")
        self.assertFalse(said["bound"])
        self.assertIn("nothing says which of the plan's 2 ranks this process is", said["errors"][0])

    def test_two_jobs_with_one_plan_have_the_homes_of_their_gpus(self):
        """Each has a rank 0 of 1."""
        self.run_mounted("plan", "-q", "--ranks", "2")
        launched = {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "ZF_PLAN": "plan.json"}
        for gpu in (0, 1):
            self.assert_same(self.bind(CUDA_VISIBLE_DEVICES=str(gpu), **launched), gpu)
            self.assert_same(self.bind(0, 1, CUDA_VISIBLE_DEVICES=str(gpu), ZF_PLAN="plan.json"), gpu)
            self.assert_same(self.bind(OPEN=f"nvidiactl nvidia{gpu}", REFUSED=f"nvidia{1 - gpu}", **launched), gpu)
        self.assert_same(self.bind(0, 2, CUDA_VISIBLE_DEVICES="1", ZF_PLAN="plan.json"), 0)  # the user says so
        for every in ({}, {"CUDA_VISIBLE_DEVICES": "1,0"}):
            self.assertEqual(self.bind(**launched, **every)["cpus"], sorted(os.sched_getaffinity(0)))
        for rank, its in enumerate(self.bind_ranks({"CUDA_VISIBLE_DEVICES": "1"}, {"CUDA_VISIBLE_DEVICES": "0"},
                                                   ZF_PLAN="plan.json")):
            self.assert_same(its, 1 - rank)

    def test_a_plan_is_not_fitted_to_fewer_ranks_with_other_gpus(self):
        self.run_mounted("plan", "-q", "--ranks", "2")
        launched = {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "CUDA_VISIBLE_DEVICES": "1", "ZF_PLAN": "plan.json"}
        plan = self.read_plan()
        plan["ranks"][1]["gpu"]["pci"] = "0000:30:00.0"
        (self.folder / "plan.json").write_text(json.dumps(plan))
        self.assert_same(self.bind(**launched), 1)  # its rank 1 has this GPU here
        self.run_mounted("plan", "-q", "--ranks", "1")
        said = self.bind(**launched)
        self.assertFalse(said["bound"], said["text"])
        self.assertIn("is for 1 rank with GPU 0000:10:00.0, and this job has 0000:20:00.0, so", said["errors"][0])
        self.assertTrue(self.bind(**launched | {"CUDA_VISIBLE_DEVICES": "0"})["bound"])


class PlanOfAnotherNode(BoundGpusTest):
    """The plan was made on a node of this class that has its GPUs at other addresses."""

    def setUp(self):
        super().setUp()
        first, *_, last = (str(cpu) for cpu in sorted(os.sched_getaffinity(0)))
        self.near = [int(last), int(first)]
        (self.folder / "plans").mkdir()
        self.run_mounted("plan", "-q", "--ranks", "2", "-o", "plans/old.json")
        self.remove_gpus()
        self.write(*(Device(f"0000:{bus}:00.0", cpu, minor=minor)
                     for minor, (bus, cpu) in enumerate((("30", last), ("40", first)))))
        self.class_ = self.read_plan("plans/old.json")["machine"]["fingerprint"]

    def assert_near(self, gpu: int, **variables: str) -> dict:
        said = self.bind(CUDA_VISIBLE_DEVICES=str(gpu), **variables)
        self.assertTrue(said["bound"], said["text"])
        self.assertIn(self.near[gpu], said["cpus"])
        return said

    def test_the_rank_is_that_of_the_gpu_that_the_plan_has_here(self):
        launched = {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
        for gpu in (0, 1):
            for variables in ({}, launched):
                self.assert_near(gpu, ZF_PLAN="plans/old.json", **variables)

    def test_the_plan_of_these_places_comes_first_then_that_of_the_class_then_any(self):
        """As publish takes them."""
        (self.folder / "own").mkdir()
        places = json.loads(self.run_mounted("probe", "--format", "json").stdout)["machine"]["gpus_fingerprint"]
        self.assertTrue(self.bind(CUDA_VISIBLE_DEVICES="0", PLANS="own")["plan"].startswith("a plan for"))
        for suffix in ("+0123456789abcdef", "", f"+{places}"):
            name = f"{self.class_}{suffix}.json"
            (self.folder / "own" / name).write_text((self.folder / "plans/old.json").read_text())
            for gpu in (0, 1):
                self.assertTrue(self.assert_near(gpu, PLANS="own")["plan"].endswith(f"/own/{name}"))
