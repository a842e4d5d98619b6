"""Machines after public reports, as folders: which devices are GPUs, which of them are mine, and contradictions."""

import json

from node_folder import INTEL, Device, NodeFolder, eight_gpus, nodes_of, two_packages
from zf_cli import DONE, CommandTest, parse_cpus

PACKAGES = two_packages(8)
NODES = nodes_of(PACKAGES)


class MadeUpNode(CommandTest):
    def write(self, node: NodeFolder) -> None:
        node.write(self.folder / "node")

    def probe(self) -> dict:
        result = self.run_tune("probe", "--sysroot", "node", "--format", "json")
        self.assert_exit(result, DONE)
        return json.loads(result.stdout)

    def need_gpus(self):
        if not self.probe()["gpus"]:
            self.skipTest("this hwloc finds no PCI devices in a folder")


class PodWithTwoOfEightGpus(MadeUpNode):
    """With CDI: the driver lists all eight, and two device nodes are there."""

    def setUp(self):
        super().setUp()
        self.write(NodeFolder(PACKAGES, NODES, eight_gpus(NODES), ["/dev/nvidia6", "/dev/nvidia7", "/dev/nvidiactl"]))
        self.need_gpus()

    def test_ranks_get_the_gpus_that_can_be_opened(self):
        probe = self.probe()
        self.assertEqual(probe["ranks"]["count"], 2)
        self.assertEqual(probe["ranks"]["gpus"], ["0000:70:00.0", "0000:80:00.0"])
        self.assertEqual([gpu["usable"] for gpu in probe["gpus"]], [False] * 6 + [True] * 2)
        text = self.run_tune("probe", "--sysroot", "node").stdout
        self.assertIn("(/dev/nvidia0 is not here)", text)
        plan = self.make_plan("--sysroot", "node")
        self.assert_sound(plan)
        self.assertEqual([rank["gpu"]["minor"] for rank in plan["ranks"]], [6, 7])
        self.assertEqual(plan["ranks"][0]["gpu"]["uuid"], "GPU-00000006-0000-0000-0000-000000000000")
        near = [parse_cpus(rank["home"]["cpus"]) & parse_cpus(NODES[1]) for rank in plan["ranks"]]
        self.assertEqual([len(cpus) for cpus in near], [8, 8], "each has half of the package of its GPU")

    def test_a_plan_for_other_gpus_of_the_node_is_fitted_to_these(self):
        self.make_plan("--sysroot", "node", name="pod.json")
        for minor in range(6):
            (self.folder / f"node/dev/nvidia{minor}").write_text("")
        plan = self.make_plan("--sysroot", "node", "--ranks", "2")
        self.assertEqual([rank["gpu"]["minor"] for rank in plan["ranks"]], [0, 1])
        for minor in range(6):
            (self.folder / f"node/dev/nvidia{minor}").unlink()
        moved = self.make_plan("--sysroot", "node", "--from", "plan.json", name="moved.json")
        self.assertEqual(moved["ranks"], self.read_plan("pod.json")["ranks"])
        self.assertTrue(any("are not usable here" in note for note in moved["allocation"]["notes"]))

    def test_without_any_node_the_driver_is_believed(self):
        for path in (self.folder / "node/dev").iterdir():
            path.unlink()
        self.assertEqual(self.probe()["ranks"]["count"], 8)


class ServerWithoutGpus(MadeUpNode):
    def test_qat_and_its_virtual_functions_are_none(self):
        devices = [Device(f"0000:{bus:02x}:00.0", NODES[node], INTEL, "0x4940", "0x0b4000", "4xxx")
                   for node, bus in ((0, 0x6B), (1, 0xE8))]
        devices += [Device(f"0000:6b:{f // 8 + 1:02x}.{f % 8}", NODES[0], INTEL, "0x4941", "0x0b4000",
                           "vfio-pci" if f % 2 else "4xxxvf") for f in range(16)]
        self.write(NodeFolder(PACKAGES, NODES, devices))
        probe = self.probe()
        if not probe["left_out"]:
            self.skipTest("this hwloc finds no PCI devices in a folder")
        self.assertEqual(probe["gpus"], [])
        self.assertEqual(len(probe["left_out"]), 18)
        self.assertEqual(probe["ranks"]["count"], 1)
        text = self.run_tune("probe", "--sysroot", "node").stdout
        self.assertRegex(text, r"8086:4941 \(16 of them, 0000:6b:01\.0 to 0000:6b:02\.7\): vendor 8086 is not known to")
        plan = self.make_plan("--sysroot", "node")
        self.assertEqual(len(plan["ranks"]), 1)
        self.assertNotIn("gpu", plan["ranks"][0])

    def test_a_gpu_that_a_virtual_machine_has_is_left_out(self):
        gpus = eight_gpus(NODES)[:2]
        gpus[0].driver = "vfio-pci"
        self.write(NodeFolder(PACKAGES, NODES, gpus))
        self.need_gpus()
        probe = self.probe()
        self.assertEqual([gpu["pci"] for gpu in probe["gpus"]], ["0000:20:00.0"])
        self.assertIn("vfio-pci", probe["left_out"][0]["why"])


class VirtualMachineWhoseCellsCrossPackages(MadeUpNode):
    """KVM: packages are pairs of CPUs in turn, and NUMA cells are halves."""

    def setUp(self):
        super().setUp()
        packages = [[[4 * core + 2 * package, 4 * core + 2 * package + 1] for core in range(16)]
                    for package in range(2)]
        self.write(NodeFolder(packages, ["0-15,32-47", "16-31,48-63"]))

    def test_no_memory_node_is_preferred_and_the_reason_says_so(self):
        plan = self.make_plan("--sysroot", "node", "--ranks", "8")
        self.assert_sound(plan)
        for rank in plan["ranks"]:
            self.assertEqual((rank["optimizer"]["mems"], rank["optimizer"]["memory_policy"]), ("0-1", "none"))
        self.assertIn("No memory node is preferred, because the files of this machine contradict each other",
                      plan["choice"]["reason"])
        self.assertIn("any node", self.run_tune("explain", "plan.json").stdout)
        exported = self.run_tune("export", "--for", "numactl", "plan.json")
        self.assert_exit(exported, DONE)
        self.assertNotIn("--preferred", exported.stdout)
        again = self.make_plan("--sysroot", "node", "--from", "plan.json", name="again.json")
        self.assertEqual((again["ranks"], again["choice"]), (plan["ranks"], plan["choice"]))

    def test_one_node_that_is_asked_for_is_preferred(self):
        plan = self.make_plan("--sysroot", "node", "--mems", "1")
        self.assertEqual(plan["ranks"][0]["optimizer"]["memory_policy"], "preferred")
        self.assertEqual(plan["ranks"][0]["optimizer"]["mems"], "1")
