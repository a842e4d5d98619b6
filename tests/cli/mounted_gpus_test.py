"""GPUs that are mounted over those of this machine: devices of PCI, NVIDIA's driver, and a /dev with nodes."""

from mounted_gpus import MountedGpusTest
from node_folder import AMD, Device


class MountedGpus(MountedGpusTest):
    def reasons(self, **keywords) -> list[str | None]:
        return [gpu["why_unusable"] for gpu in self.probe(**keywords)["gpus"]]

    def test_a_node_that_is_missing_or_refused_is_anothers_gpu(self):
        self.write(*self.nvidia(3))
        keywords = {"nodes": "nvidia1 nvidiactl", "refused": "nvidia2"}
        self.assertEqual(self.reasons(**keywords),
                         ["/dev/nvidia0 is not here", None, "/dev/nvidia2 may not be opened here"])
        self.assertEqual(self.probe(**keywords)["ranks"]["gpus"], ["0000:20:00.0"])
        self.assertEqual(self.probe(nodes="nvidiactl")["ranks"]["count"], 3, "without a node, nothing is known")

    def test_only_who_plans_looks_at_nodes(self):
        """A rank must not: a driver may answer one and not another. The plan is as good for check as for exec."""
        self.write(*self.nvidia(2))
        self.probe(nodes="nvidia0 nvidia1")
        self.run_mounted("plan", "-q", "--ranks", "1", nodes="nvidia0 nvidia1")
        self.assertEqual(self.read_plan()["ranks"][0]["gpu"]["pci"], "0000:10:00.0")
        for nodes, refused in (("nvidia0 nvidia1", ""), ("nvidia1", "nvidia0")):
            self.run_mounted("check", nodes=nodes, refused=refused)
            result = self.run_mounted("exec", "--", "true", nodes=nodes, refused=refused)
            self.assertNotIn("GPU", result.stderr)
        self.run_mounted("plan", "-q", "--from", "plan.json", nodes="nvidia1", refused="nvidia0")
        self.assertEqual(self.read_plan()["ranks"][0]["gpu"]["pci"], "0000:20:00.0")

    def test_the_list_of_the_container_counts_if_it_has_uuids(self):
        gpus = self.nvidia(3)
        self.write(*gpus)
        listed = ",".join(gpu.uuid for gpu in gpus[1:])
        probe = self.probe(NVIDIA_VISIBLE_DEVICES=listed)
        self.assertEqual(probe["ranks"]["gpus"], ["0000:20:00.0", "0000:30:00.0"])
        self.assertEqual(probe["gpus"][0]["why_unusable"], "NVIDIA_VISIBLE_DEVICES does not name it")
        first = self.probe(NVIDIA_VISIBLE_DEVICES=listed, CUDA_VISIBLE_DEVICES="0")
        self.assertEqual(first["ranks"]["gpus"], ["0000:20:00.0"], "CUDA counts those of the container")
        for word in ("all", "none", "void"):
            self.assertEqual(self.probe(NVIDIA_VISIBLE_DEVICES=word)["ranks"]["count"], 3, word)

    def test_amds_gpus_need_their_render_node_and_the_compute_driver(self):
        self.write(*(Device(f"0000:c{i}:00.0", self.cpus, AMD, "0x74a0", "0x120000", "amdgpu",
                            nodes=(f"card{i}", f"renderD{128 + i}")) for i in (1, 2)))
        self.assertEqual(self.reasons(nodes="kfd dri/renderD130"), ["/dev/dri/renderD129 is not here", None])
        self.assertEqual(self.reasons(nodes="dri/renderD129", refused="kfd dri/renderD130"),
                         2 * ["/dev/kfd may not be opened here"])
        self.assertEqual(self.reasons(nodes="dri/renderD129", refused="dri/renderD130"),
                         [None, "/dev/dri/renderD130 may not be opened here"])

    def test_a_gpu_that_is_given_to_a_virtual_machine_is_left_out(self):
        gpus = self.nvidia(2)
        gpus[0].driver, gpus[1].driver = "vfio-pci", "nvidia"
        self.write(*gpus)
        probe = self.probe()
        self.assertEqual([gpu["pci"] for gpu in probe["gpus"]], ["0000:20:00.0"])
        self.assertEqual([device["pci"] for device in probe["left_out"]], ["0000:10:00.0"])
