"""Nodes of one class that have GPUs in different places: each gets homes near its own GPUs."""

import json
import re

from mounted_gpus import MOUNT, MountedGpusTest
from node_folder import NVIDIA, Device, NodeFolder, nodes_of, two_packages
from zf_cli import BINARY, DONE, RUNTIME_ERROR, SOURCE, CommandTest

PACKAGES = two_packages(8)
NODES = nodes_of(PACKAGES)
NETWORK_CARD = Device("0000:05:00.0", NODES[0], "0x8086", "0x1592", "0x020000")
PLACES = {"halves": (0, 0, 1, 1), "first": (0, 0, 0, 0), "none": ()}

# Stands for ssh to a node that has its GPUs elsewhere than the survey says: each has those of "halves".
ENGINE = """#!/bin/bash
eval "set -- $2"; shift 3 # zf-tune tune -q
exec "$ZF_TUNE" plan -q --sysroot halves "$@"
"""


def gpus_on(*packages: int, **keywords) -> list[Device]:
    return [Device(f"0000:{0x10 * (i + 1):02x}:00.0", NODES[package], NVIDIA, **keywords)
            for i, package in enumerate(packages)]


class GpuPlaces(CommandTest):
    """Three nodes of one CPU, with four GPUs on packages 0,0,1,1, with four on package 0, and with none."""

    def setUp(self):
        super().setUp()
        (self.folder / "plans").mkdir()
        for name, packages in PLACES.items():
            self.write_node(name, gpus_on(*packages))

    def write_node(self, name: str, gpus: list[Device], device_nodes: list[str] | None = None) -> None:
        NodeFolder(PACKAGES, NODES, [NETWORK_CARD, *gpus], device_nodes or []).write(self.folder / name)

    def plan_of(self, name: str, *arguments: str) -> dict:
        return self.make_plan("--ranks", "4", "--sysroot", name, *arguments, name=f"{name}.json")

    def put(self, plan: dict, suffix: str = "") -> None:
        (self.folder / "plans" / f"{plan['machine']['fingerprint']}{suffix}.json").write_text(json.dumps(plan))

    def publish(self, name: str, *arguments: str) -> dict:
        self.assert_exit(self.run_tune("publish", "--plans", "plans", "--to", "run/1.json", "--sysroot", name,
                                       *arguments), DONE)
        return self.read_plan("run/1.json")

    def homes(self, plan: dict) -> list[str]:
        return [rank["home"]["cpus"] for rank in plan["ranks"]]

    def test_plan_for_other_places_of_gpus_is_not_taken(self):
        for name in ("halves", "first"):
            for i in (1, 2):
                self.run_tune("survey", "add", "nodes", "--name", f"{name}{i}", "--sysroot", name)
        (self.folder / "engine").write_text(ENGINE)
        (self.folder / "engine").chmod(0o755)
        result = self.run_tune("survey", "nodes", "--tune", "./engine {node} {command}", "--plans", "plans", "--",
                               "--ranks", "4", ZF_TUNE=BINARY)
        self.assert_exit(result, RUNTIME_ERROR)
        own = {name: self.plan_of(name) for name in ("halves", "first")}
        names = {name: f"{plan['machine']['fingerprint']}+{plan['gpus']['fingerprint']}" for name, plan in own.items()}
        self.assertIn(f"{names['halves']}: was tuned on halves1\n", result.stdout)
        self.assertRegex(result.stdout, rf"{re.escape(names['first'])}: \S+: is a plan of class "
                                        rf"{re.escape(names['halves'])}\b")
        self.assertEqual([path.name for path in (self.folder / "plans").glob("*.json")], [f"{names['halves']}.json"])

    def test_publish_gives_each_node_homes_near_its_own_gpus(self):
        own = {name: self.plan_of(name) for name in PLACES}
        self.assertNotEqual(self.homes(own["halves"]), self.homes(own["first"]))
        for made_on in PLACES:
            self.put(own[made_on])
            for name in PLACES:
                with self.subTest(made_on=made_on, published_on=name):
                    published = self.publish(name)
                    self.assert_sound(published)
                    self.assertEqual(self.homes(published), self.homes(own[name]))
                    self.assertEqual([rank.get("gpu") for rank in published["ranks"]],
                                     [rank.get("gpu") for rank in own[name]["ranks"]])
                    for part in ("made", "machine", "workload", "evidence"):
                        self.assertEqual(published[part], own[made_on][part])
                    self.assertEqual(published["gpus"], own[name]["gpus"])
                    moved = self.make_plan("--from", f"{made_on}.json", "--sysroot", name, name="moved.json")
                    self.assertEqual(moved["ranks"], published["ranks"], "as plan --from")

    def test_a_plan_of_gpus_that_are_here_stays_as_it_is(self):
        for name in PLACES:
            plan = self.plan_of(name)
            self.put(plan)
            self.assertEqual(self.publish(name), plan)

    def test_addresses_that_agree_by_chance_mean_nothing(self):
        """Frameworks count GPUs by PCI, so a GPU in front of another one gives each rank behind it another GPU."""
        def places(plan: dict) -> list:
            return [(rank["home"]["cpus"], rank["gpu"]["pci"]) for rank in plan["ranks"]]

        for ranks, made_on, here in ((4, {0x18: 0, 0x3B: 0, 0x86: 1, 0xAF: 1}, {0x18: 0, 0x3B: 0, 0x5E: 0, 0x86: 1}),
                                     (2, {0x18: 0, 0x86: 1}, {0x18: 0, 0x3B: 0, 0x86: 1, 0xAF: 1})):
            with self.subTest(ranks=ranks):
                made_on_node, node_here = f"{ranks}-made-on", f"{ranks}-here"
                for name, buses in ((made_on_node, made_on), (node_here, here)):
                    self.write_node(name, [Device(f"0000:{bus:02x}:00.0", NODES[node], NVIDIA)
                                           for bus, node in buses.items()])
                plans = {name: self.make_plan("--ranks", str(ranks), "--sysroot", name, name=f"{name}.json")
                         for name in (made_on_node, node_here)}
                self.assertNotEqual(places(plans[made_on_node]), places(plans[node_here]))
                self.put(plans[made_on_node])
                self.assertEqual(places(self.publish(node_here)), places(plans[node_here]))
                moved = self.make_plan("--from", f"{made_on_node}.json", "--sysroot", node_here, name="moved.json")
                self.assertEqual(places(moved), places(plans[node_here]))

    def test_a_plan_that_does_not_know_its_places_is_fitted_too(self):
        plan = self.plan_of("halves")
        del plan["gpus"]
        self.put(plan)
        self.assertEqual(self.homes(self.publish("first")), self.homes(self.plan_of("first")))
        self.assertEqual(self.publish("halves"), plan)

    def test_a_plan_that_knows_the_nodes_of_its_gpus_and_not_the_cpus_is_fitted_too(self):
        plan = self.plan_of("halves")
        del plan["gpus"]
        for rank in plan["ranks"]:
            del rank["gpu"]["cpus"]
        self.put(plan)
        self.assertEqual(self.publish("halves"), plan)
        self.assertEqual(self.homes(self.publish("first")), self.homes(self.plan_of("first")))

    def test_a_plan_for_more_ranks_than_its_node_had_gpus_is_fitted_where_there_are_enough(self):
        self.write_node("few", gpus_on(0, 1))
        self.put(self.plan_of("few"))
        for name in ("halves", "first"):
            self.assertEqual(self.homes(self.publish(name)), self.homes(self.plan_of(name)))
        self.assertEqual(self.homes(self.publish("few")), self.homes(self.plan_of("few")))

    def test_publish_says_why_homes_are_not_fitted(self):
        self.put(self.make_plan("--ranks", "2", "--sysroot", "halves", "--allowed", "0-1"))
        self.write_node("bare", gpus_on(1, 1))
        self.write_files({"bare/sys/devices/system/cpu/isolated": "1\n"})
        result = self.run_tune("publish", "--plans", "plans", "--to", "run/1.json", "--sysroot", "bare")
        self.assert_exit(result, DONE)
        self.assertIn("zf-tune publish: the homes are not fitted to this node's GPUs: ", result.stderr)
        self.assertEqual(self.read_plan("run/1.json"), self.read_plan())

    def test_places_are_no_part_of_the_class_and_know_no_driver(self):
        plans = {name: self.plan_of(name) for name in PLACES}
        self.assertEqual(len({plan["machine"]["fingerprint"] for plan in plans.values()}), 1)
        self.assertEqual(len({plan["gpus"]["fingerprint"] for plan in plans.values()}), 3)
        self.assertEqual(plans["halves"]["gpus"]["places"], [{"kind": "10de:2330", "count": 2, "node": 0},
                                                             {"kind": "10de:2330", "count": 2, "node": 1}])
        self.assertEqual(plans["none"]["gpus"]["places"], [])
        known = gpus_on(0, 0, 1, 1, driver="nvidia")
        known[1].minor = 1  # a container that was given one GPU
        self.write_node("driven", known, ["/dev/nvidia1"])
        driven = json.loads(self.run_tune("probe", "--sysroot", "driven", "--format", "json").stdout)
        self.assertEqual([gpu["usable"] for gpu in driven["gpus"]], [False, True, False, False])
        self.assertEqual(driven["machine"]["gpus_fingerprint"], plans["halves"]["gpus"]["fingerprint"])

    def test_the_plan_of_these_places_comes_first_then_that_of_the_class_then_any(self):
        def taken() -> int:
            return self.publish("halves")["workload"]["params"] // 10**9

        places = {name: self.plan_of(name)["gpus"]["fingerprint"] for name in PLACES}
        self.put(self.plan_of("first", "--params", "3B"), "+" + places["first"])
        self.assertEqual(taken(), 3)
        self.put(self.plan_of("first", "--params", "2B"))
        self.assertEqual(taken(), 2)
        self.put(self.plan_of("halves", "--params", "1B"), "+" + places["halves"])
        self.assertEqual(taken(), 1)

    def test_the_health_check_looks_at_no_gpu(self):
        plan = self.plan_of("halves")
        self.put(plan)
        self.assertEqual(self.publish("first", "--no-gpus"), plan)
        self.assertIn("--no-gpus", (SOURCE / "scripts/slurm/health").read_text())


class GpusOfThisNode(MountedGpusTest):
    """exec on a node with two GPUs that have changed places since the plan was made."""

    def setUp(self):
        super().setUp()
        self.need_two_cpus()
        self.write(*self.near("0", "1"))
        self.probe()  # skips where GPUs cannot be mounted
        (self.folder / "plans").mkdir()
        self.run_mounted("plan", "-q", "--ranks", "2", "-o", "plans/plan.json")
        self.plan = self.read_plan("plans/plan.json")

    def near(self, *cpus: str) -> list[Device]:
        return [Device(f"0000:{0x10 * (i + 1):02x}:00.0", near, minor=i) for i, near in enumerate(cpus)]

    def homes(self, **keywords) -> list[str]:
        """What each of two ranks finds by itself."""
        said = [self.run_mounted("exec", "--plan", "plans/plan.json", "--dry-run", "--", "true", LOCAL_RANK=str(rank),
                                 LOCAL_WORLD_SIZE="2", **keywords) for rank in range(2)]
        self.notes = [result.stderr + result.stdout for result in said]
        return [result.stdout.rsplit("taskset -c ", 1)[1].split()[0] for result in said]

    def test_exec_gives_every_rank_the_home_near_its_gpu(self):
        self.assertEqual(self.homes(), ["0", "1"])
        self.assertNotIn("fitted", "".join(self.notes))
        self.write(*self.near("1", "0"))
        self.assertEqual(self.homes(), ["1", "0"])
        self.assertIn("the homes of the ranks are fitted to them", self.notes[0])
        self.assertNotIn("fitted", self.notes[1], "once for all ranks")

    def test_exec_sees_gpus_that_the_plan_has_not(self):
        """Frameworks count the one in front first, so each rank has another GPU than on the plan's node."""
        self.write(Device("0000:08:00.0", "1", minor=2))
        self.assertEqual(self.homes(), ["1", "0"])
        self.assertIn("this node has 3 GPUs (10de:2330) on node 0, the plan's node 2 GPUs", self.notes[0])

    def test_exec_says_why_homes_are_not_fitted(self):
        self.write(*self.near("1", "0"))
        self.write_files({"isolated": "1\n"})
        mount = "mount --bind isolated /sys/devices/system/cpu/isolated" + MOUNT
        result = self.run_tune("exec", "--plan", "plans/plan.json", "--dry-run", "--", "true", LOCAL_RANK="0",
                               LOCAL_WORLD_SIZE="2", OPEN="", REFUSED="",
                               before=["unshare", "--mount", "sh", "-c", mount, "sh"])
        self.assert_exit(result, DONE)
        self.assertIn("plan.json: the homes are not fitted to this node's GPUs: ", result.stdout)

    def test_what_drivers_and_lists_say_does_not_tell_ranks_apart(self):
        self.write(*self.near("1", "0"))
        for keywords in ({"nodes": "nvidia1"}, {"CUDA_VISIBLE_DEVICES": "1"}):
            self.assertEqual(self.homes(**keywords), ["1", "0"], keywords)

    def test_no_remedy_names_a_file_that_the_user_cannot_write(self):
        read_only = "mount --bind plans plans && mount -o remount,bind,ro plans\n" + MOUNT

        def said(script: str) -> str:
            result = self.run_tune("exec", "--plan", "plans/plan.json", "--dry-run", "--", "true", LOCAL_RANK="0",
                                   LOCAL_WORLD_SIZE="2", CUDA_VISIBLE_DEVICES="6,7", OPEN="", REFUSED="",
                                   before=["unshare", "--mount", "sh", "-c", script, "sh"])
            self.assert_exit(result, DONE)
            return result.stderr + result.stdout

        path = self.folder / "plans/plan.json"
        self.assertIn(f"`zf-tune plan --from {path} -o {path}` moves the homes", said(MOUNT))
        self.assertIn(f"`zf-tune plan --from {path} -o FILE`", said(read_only))
