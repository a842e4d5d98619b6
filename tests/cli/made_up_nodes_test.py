"""Machines after public reports, as folders."""

from node_folder import NodeFolder
from zf_cli import DONE, CommandTest


class MadeUpNode(CommandTest):
    def write(self, node: NodeFolder) -> None:
        node.write(self.folder / "node")


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
