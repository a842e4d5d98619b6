"""zf-tune probe: the machine and the allocation, for people and for programs."""

import json
import os
import re
import shutil
import subprocess
import time

from zf_cli import DONE, SOURCE, USAGE, CommandTest

SLURM_NODE = "pack:2 [numa(memory=256GiB)] l3u:2 core:12 pu:1"


class Probe(CommandTest):
    def test_text_names_every_allowed_cpu(self):
        result = self.run_tune("probe")
        self.assert_exit(result, DONE)
        self.assertIn(allowed_list(), result.stdout)

    def test_json_is_json(self):
        result = self.run_tune("probe", "--format", "json")
        self.assert_exit(result, DONE)
        json.loads(result.stdout)

    def test_affinity_mask_is_obeyed_and_given_as_the_reason(self):
        self.need_two_cpus()
        cpus = sorted(os.sched_getaffinity(0))
        result = self.run_tune("probe", before=["taskset", "-c", str(cpus[1])])
        self.assert_exit(result, DONE)
        self.assertIn("affinity", result.stdout)

    def test_synthetic_machine_is_not_this_one(self):
        result = self.run_tune("probe", "--topology", SLURM_NODE, "--allowed", "0,4-11,21-26,30-46")
        self.assert_exit(result, DONE)
        self.assertIn("0,4-11,21-26,30-46", result.stdout)

    def test_topology_may_be_json_too(self):
        result = self.run_tune("probe", "--topology", SLURM_NODE, "--format", "json")
        self.assert_exit(result, DONE)
        self.assertIn("0-47", result.stdout)
        json.loads(result.stdout)

    def test_xml_that_crashes_hwloc_is_refused(self):
        """A PU without its complete_cpuset, as a damaged file has it."""
        xml = (SOURCE / "tests/machines/qemu-2ht.xml").read_text()
        damaged = xml.replace('<object type="PU" os_index="0" cpuset="0x00000001" complete_cpuset=',
                              '<object type="PU" os_index="0" cpuset="0x00000001" complete_cpususet=')
        self.assertNotEqual(damaged, xml)
        (self.folder / "x.xml").write_text(damaged)
        self.assert_refused(self.run_tune("probe", "--topology", "x.xml"), USAGE, "x.xml", "hwloc crashes", "lstopo")

    def test_xml_that_went_through_an_editor_is_read(self):
        """hwloc itself reads the line ends of DOS with libxml2 alone, which is a plugin."""
        xml = (SOURCE / "tests/machines/qemu-2ht.xml").read_text()
        edited = xml.replace("\n", "\r\n")
        (self.folder / "x.xml").write_text(xml)
        honest = self.run_tune("probe", "--topology", "x.xml")
        (self.folder / "x.xml").write_bytes(edited.encode())
        for plugins in ({}, {"HWLOC_PLUGINS_PATH": "/nonexistent"}):
            result = self.run_tune("probe", "--topology", "x.xml", **plugins)
            self.assert_exit(result, DONE)
            self.assertEqual(result.stdout, honest.stdout)

    def test_synthetic_machine_of_a_million_pus_is_refused(self):
        for huge in ("pu:1000000", "pack:2 [numa(memory=64GiB)] core:32768 pu:2", "100 100 100", "pu:0x100000", "pu:-1",
                     "core:\t+1000000 pu:1", "pack:2(memory=1GiB)100000 pu:1", "pack:2core:0100000pu:1",
                     "pack:99999999999 core:99999999999 pu:99999999999"):
            self.assert_refused(self.run_tune("probe", "--topology", huge), USAGE, "--topology", "PUs; at most 8192")
        self.assert_exit(self.run_tune("probe", "--topology", "pack:2 [numa(memory=2000000GiB)] l3u:1 core:8 pu:2"),
                         DONE)

    def test_synthetic_machine_that_takes_too_long_is_refused(self):
        """hwloc compares each node with all others of its package. Within its 10 s a fast machine may be through."""
        start = time.monotonic()
        result = self.run_tune("probe", "--topology", "pack:1024 " + 1000 * "[numa] " + "pu:1")
        self.assertLess(time.monotonic() - start, 30)
        if result.returncode != DONE:
            self.assert_refused(result, USAGE, "did not finish reading this within 10 s", "describe a smaller machine")
        self.assert_exit(self.run_tune("probe", "--topology", "pack:2 core:1024 pu:2"), DONE)

    def test_captured_node_of_a_million_nodes_is_refused(self):
        options = self.make_node(1)
        self.write_files({"node/sys/devices/system/node/online": "0-20999999\n"})
        result = self.run_tune("probe", *options)
        self.assert_refused(result, USAGE, "node/sys/devices/system/node/online", "0-20999999")

    def test_what_others_wrote_cannot_drive_the_terminal(self):
        said = "gpu\x1b[31m\u202e\u2066\u2028\u061c\u009b2J\ngone\x7f" + 100000 * "x"
        environment = {"SLURM_JOB_ID": "1", "SLURM_MEM_BIND": said}
        text = self.run_tune("probe", **environment)
        data = self.run_tune("probe", "--format", "json", **environment)
        for result in (text, data):
            self.assert_exit(result, DONE)
            self.assertEqual(re.findall("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\u2066\u2028\u061c]", result.stdout), [])
        self.assertEqual(json.loads(data.stdout)["slurm"]["SLURM_MEM_BIND"], said)
        self.assertLess(len(text.stdout), 20000)
        self.assertNotIn("\ngone", text.stdout)

    def test_names_in_a_file_cannot_forge_a_line(self):
        """A device or a node with a name that ends a line, and goes on for thousands of characters."""
        name = "a name&#10;Allowed     CPUs 0-999 FORGED" + 6000 * "x"
        for machine, before in (("mi250x.xml", 'pci_busid="0000:d1:00.0"'), ("persistent-memory.xml", 'subtype="NVM"')):
            xml = (SOURCE / "tests/machines" / machine).read_text()
            after = f'name="{name}" {before}' if "pci" in before else f'subtype="{name}"'
            (self.folder / "forged.xml").write_text(xml.replace(before, after, 1))
            honest = self.run_tune("probe", "--topology", SOURCE / "tests/machines" / machine)
            forged = self.run_tune("probe", "--topology", "forged.xml")
            self.assert_exit(forged, DONE)
            self.assertIn("a name Allowed     CPUs 0-999 FORGED", forged.stdout)
            self.assertEqual(len(forged.stdout.splitlines()), len(honest.stdout.splitlines()), machine)
            self.assertLess(max(map(len, forged.stdout.splitlines())), 4100, machine)

    def test_unknown_format_is_refused(self):
        self.assert_refused(self.run_tune("probe", "--format", "yaml"), 2, "yaml", "--format")

    def test_machine_of_384_pus_is_read(self):
        if not shutil.which("lstopo-no-graphics"):
            self.skipTest("no lstopo-no-graphics to make the XML with: install hwloc-nox")
        subprocess.run(
            ["lstopo-no-graphics", "-i", "pack:2 [numa(memory=384GiB)] l3u:12 core:8 pu:2", "--of", "xml", "big.xml"],
            cwd=self.folder,
            check=True,
        )
        result = self.run_tune("probe", "--topology", "big.xml")
        self.assert_exit(result, DONE)
        self.assertIn("384", result.stdout)


def allowed_list() -> str:
    """What the kernel says of this process, in its own notation."""
    with open("/proc/self/status", encoding="ascii") as status:
        return next(line.split()[1] for line in status if line.startswith("Cpus_allowed_list"))
