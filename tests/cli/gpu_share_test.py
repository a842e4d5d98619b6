"""Ranks that are not as many as GPUs: what probe and plan say, the options for it, and exec --set-gpus."""

import json

from node_folder import AMD, Device, NodeFolder, eight_gpus, nodes_of, two_packages
from zf_cli import DONE, USAGE, CommandTest, parse_cpus, validate

SEEN = ["sh", "-c", "grep Cpus_allowed_list /proc/self/status; echo gpus: $CUDA_VISIBLE_DEVICES $CUDA_DEVICE_ORDER"]
ONE_EACH = "4 ranks have 8 GPUs: rank i is taken to use GPU i alone; --gpus-per-rank 2 gives each rank 2"


class GpuShare(CommandTest):
    def setUp(self):
        super().setUp()
        packages = two_packages(16)
        self.packages = [parse_cpus(cpus) for cpus in nodes_of(packages)]
        NodeFolder(packages, nodes_of(packages), eight_gpus(nodes_of(packages))).write(self.folder / "node")

    def plan_on(self, *arguments: str, node: str = "node", name: str = "plan.json") -> dict:
        plan = self.make_plan("--sysroot", node, *arguments, name=name)
        self.assert_sound(plan)
        validate(plan)
        return plan

    def packages_of(self, plan: dict) -> list[list[int]]:
        return [[number for number, cpus in enumerate(self.packages) if cpus & parse_cpus(rank["home"]["cpus"])]
                for rank in plan["ranks"]]

    def refused(self, *arguments: str) -> str:
        result = self.run_tune("plan", "--sysroot", "node", *arguments)
        self.assert_exit(result, USAGE)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        return result.stderr

    def test_fewer_ranks_than_gpus_are_said(self):
        plan = self.plan_on("--ranks", "4")
        self.assertEqual(plan["allocation"]["notes"][0], ONE_EACH)
        self.assertEqual(self.packages_of(plan), 4 * [[0, 1]])
        self.assertIn(ONE_EACH, self.run_tune("probe", "--sysroot", "node", "--ranks", "4").stdout)
        self.assertEqual([rank["spread_gpu"]["minor"] for rank in plan["ranks"]], [0, 2, 4, 6])

    def test_six_ranks_on_eight_gpus_cross_packages_only_if_the_offer_is_not_taken(self):
        plan = self.plan_on("--ranks", "6")
        self.assertEqual(self.packages_of(plan), 4 * [[0, 1]] + 2 * [[1]])
        self.assertEqual([rank["spread_gpu"]["minor"] for rank in plan["ranks"]], [0, 1, 2, 4, 5, 6])
        notes = " ".join(plan["allocation"]["notes"])
        self.assertIn("4 of these GPUs are near one package", notes)
        self.assertIn("spreads the ranks, at most 3 to a package, by ", notes)
        for rank in plan["ranks"]:
            rank["gpu"] = rank.pop("spread_gpu")
        self.write_files({"offered.json": json.dumps(plan)})
        self.assertEqual(self.packages_of(self.plan_on("--from", "offered.json")), 3 * [[0]] + 3 * [[1]])

    def test_each_rank_is_near_all_its_gpus(self):
        plan = self.plan_on("--gpus-per-rank", "2")
        self.assertEqual(self.packages_of(plan), [[0], [0], [1], [1]])
        self.assertEqual(plan["intent"]["gpus_per_rank"], 2)
        self.assertEqual([[gpu["minor"] for gpu in (rank["gpu"], *rank["more_gpus"])] for rank in plan["ranks"]],
                         [[0, 1], [2, 3], [4, 5], [6, 7]])
        self.assertNotIn("notes", plan["allocation"])
        again = self.plan_on("--from", "plan.json", name="again.json")
        self.assertEqual((again["ranks"], again["intent"]), (plan["ranks"], plan["intent"]))
        self.assertIn("0000:30:00.0 and 1 more, node 0", self.run_tune("explain", "plan.json").stdout)

    def test_deepspeeds_launcher_cannot_be_told_of_several_gpus(self):
        self.plan_on("--gpus-per-rank", "2", "--framework", "deepspeed-offload", "--for", "deepspeed")
        result = self.run_tune("export", "plan.json", "--for", "deepspeed")
        self.assert_exit(result, DONE)
        self.assertIn("gives rank k the GPU k alone, and the plan gives each rank 2 GPUs", result.stderr)

    def test_a_plan_gets_another_share(self):
        self.plan_on("--ranks", "8", name="eight.json")
        moved = self.plan_on("--from", "eight.json", "--gpus-per-rank", "2")
        self.assertEqual(moved["workload"]["ranks"], 4)
        self.assertEqual(self.packages_of(moved), [[0], [0], [1], [1]])

    def test_several_ranks_have_one_gpu(self):
        plan = self.plan_on("--ranks-per-gpu", "2")
        self.assertEqual([rank["gpu"]["minor"] for rank in plan["ranks"]], [rank // 2 for rank in range(16)])
        self.assertEqual(self.packages_of(plan), 8 * [[0]] + 8 * [[1]])
        unsaid = self.plan_on("--ranks", "16")
        self.assertFalse(any("gpu" in rank for rank in unsaid["ranks"]))
        self.assertIn("; --ranks-per-gpu 2 gives each GPU to 2 ranks", unsaid["allocation"]["notes"][0])

    def test_parts_of_gpus(self):
        packages = two_packages(6)
        nodes = nodes_of(packages)
        apus = [Device(f"000{i}:02:00.0", nodes[i], AMD, "0x74a0", "0x120000") for i in range(2)]
        NodeFolder(packages, nodes, apus).write(self.folder / "apus")
        for part in range(6):
            folder = self.folder / f"apus/sys/class/kfd/kfd/topology/nodes/{part + 2}"
            folder.mkdir(parents=True)
            (folder / "properties").write_text(f"simd_count 304\ndomain {part // 3}\nlocation_id {0x200}\n"
                                               f"unique_id {part + 1}\n")
        unsaid = self.plan_on("--ranks", "6", node="apus")
        self.assertFalse(any("gpu" in rank for rank in unsaid["ranks"]))
        self.assertIn("--ranks-per-gpu 3 gives a rank to each", unsaid["allocation"]["notes"][0])
        plan = self.plan_on("--ranks-per-gpu", "3", node="apus")
        self.assertEqual([rank["gpu"]["pci"][:4] for rank in plan["ranks"]], 3 * ["0000"] + 3 * ["0001"])
        for rank in plan["ranks"]:
            self.assertLessEqual(parse_cpus(rank["home"]["cpus"]), parse_cpus(rank["gpu"]["cpus"]))

    def test_contradictions_are_one_line(self):
        self.assertIn("--gpus-per-rank and --ranks-per-gpu contradict each other",
                      self.refused("--gpus-per-rank", "2", "--ranks-per-gpu", "2"))
        self.assertIn("5 ranks need 10 GPUs, and this node has 8; there is room for 4 ranks",
                      self.refused("--gpus-per-rank", "2", "--ranks", "5"))
        self.assertIn("8 GPUs cannot be divided so; say with --ranks", self.refused("--gpus-per-rank", "3"))
        self.assertIn("8 GPUs cannot be divided so; give a rank 8 at most", self.refused("--gpus-per-rank", "16"))
        self.plan_on("--gpus-per-rank", "2", name="two.json")
        self.assertIn("8 ranks need 16 GPUs", self.refused("--from", "two.json", "--ranks", "8"))


class SetGpus(CommandTest):
    def setUp(self):
        super().setUp()
        self.need_two_cpus()
        self.plan = self.make_plan("--ranks", "2")
        homes = [rank["home"]["cpus"] for rank in self.plan["ranks"]]
        for rank, home in zip(self.plan["ranks"], homes):
            number = rank["rank"]
            rank["gpu"] = {"pci": f"fffe:0{number}:00.0", "cpus": home, "cuda_number": number}
        # Each rank's GPU to spread is near the other rank's home.
        self.offer = [{"pci": f"fffe:1{number}:00.0", "cpus": homes[1 - number], "cuda_number": 4 * number,
                       "uuid": f"GPU-{number}-abc"} for number in range(2)]
        self.homes = [parse_cpus(home) for home in homes]
        self.write()

    def write(self) -> None:
        (self.folder / "plan.json").write_text(json.dumps(self.plan))

    def run_ranks(self, **environment: str) -> tuple[list[set[int]], list[str], str]:
        """Returns the CPUs of both ranks, the GPUs that they see, and what rank 0 says."""
        homes, gpus, said = [], [], []
        for rank in range(2):
            result = self.run_tune("exec", "--set-gpus", "--", *SEEN, LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE="2",
                                   **environment)
            self.assert_exit(result, DONE)
            lines = result.stdout.splitlines()
            homes.append(parse_cpus(lines[0].split()[1]))
            gpus.append(lines[1])
            said.append(result.stderr)
        self.assertNotIn("for all ranks", said[1], "one note is enough")
        return homes, gpus, said[0]

    def test_the_plans_gpus_are_set(self):
        homes, gpus, said = self.run_ranks()
        self.assertEqual(homes, self.homes)
        self.assertEqual(gpus, 2 * ["gpus: 0,1 PCI_BUS_ID"])
        self.assertIn("CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=0,1 for all ranks", said)

    def test_ranks_are_spread_and_their_homes_follow(self):
        for rank, gpu in zip(self.plan["ranks"], self.offer):
            rank["spread_gpu"] = gpu
        self.write()
        homes, gpus, said = self.run_ranks()
        self.assertEqual(homes, self.homes[::-1])
        self.assertEqual(gpus, 2 * ["gpus: GPU-0-abc,GPU-1-abc"])
        self.assertIn("their GPUs are spread over the packages, and the homes are near them", said)
        offer = "the plan offers GPUs that spread the ranks over the packages: --set-gpus sets CUDA_VISIBLE_DEVICES="
        for rank, options, is_offered in ((0, {}, True), (1, {}, False), (0, {"CUDA_VISIBLE_DEVICES": "0,1"}, False)):
            result = self.run_tune("exec", "--", *SEEN, LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE="2", **options)
            self.assertEqual(parse_cpus(result.stdout.split()[1]), self.homes[rank], "without the option")
            self.assertEqual(offer in result.stderr, is_offered, result.stderr)

    def test_a_variable_that_is_set_wins(self):
        for rank, gpu in zip(self.plan["ranks"], self.offer):
            rank["spread_gpu"] = gpu
        self.write()
        homes, gpus, said = self.run_ranks(CUDA_VISIBLE_DEVICES="0,1")
        self.assertEqual(homes, self.homes)
        self.assertEqual(gpus, 2 * ["gpus: 0,1"])
        self.assertIn("--set-gpus sets nothing: CUDA_VISIBLE_DEVICES=0,1 is kept", said)

    def test_a_dry_run_shows_it(self):
        shown = self.run_tune("exec", "--set-gpus", "--dry-run", "--", "true", LOCAL_RANK="0", LOCAL_WORLD_SIZE="2")
        self.assertIn("export CUDA_VISIBLE_DEVICES=0,1\n", shown.stdout)
