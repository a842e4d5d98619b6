"""GPUs that are mounted over those of this machine: devices of PCI, NVIDIA's driver, and a /dev with nodes."""

import json
import os
import pathlib

from node_folder import AMD, Device
from permissions import need_device_nodes, need_namespaces
from zf_cli import DONE, CommandTest, print_cpus

# Mounts the folders pci, driver and dev of the test over this machine's, and becomes the command. The nodes of `open`
# are those of /dev/null, and may be opened; those of `refused` lie on a mount that allows no device nodes (EACCES).
MOUNT = """
set -e
mount -t tmpfs -o mode=755 tmpfs dev
mkdir -p dev/dri dev/shm refused
mount -t tmpfs -o nodev tmpfs refused
mknod -m 666 dev/urandom c 1 9
for node in null $OPEN; do mknod -m 666 "dev/$node" c 1 3; done
for node in $REFUSED; do
  mknod -m 666 "refused/${node##*/}" c 1 3
  : >"dev/$node"
  mount --bind "refused/${node##*/}" "dev/$node"
done
mount --bind pci /sys/bus/pci
mount --bind driver /proc/driver
mount --rbind dev /dev
exec "$@"
"""


class MountedGpus(CommandTest):
    def setUp(self):
        super().setUp()
        for at in ("/sys/bus/pci", "/proc/driver"):
            if not pathlib.Path(at).is_dir():
                self.skipTest(f"no {at} here to mount devices over")
            need_namespaces("--mount", at=at)
        (self.folder / "dev").mkdir()
        need_device_nodes(str(self.folder / "dev"))
        self.cpus = print_cpus(os.sched_getaffinity(0))

    def write(self, *devices: Device) -> None:
        """Writes the devices' files for MOUNT."""
        total = max(os.sched_getaffinity(0)) + 1
        for device in devices:
            self.write_files({name.replace("sys/bus/pci/", "pci/", 1).replace("proc/driver/", "driver/", 1): text + "\n"
                              for name, text in device.files(total).items()})
        (self.folder / "driver").mkdir(exist_ok=True)

    def nvidia(self, count: int) -> list[Device]:
        return [Device(f"0000:{0x10 * (minor + 1):02x}:00.0", self.cpus, minor=minor) for minor in range(count)]

    def run_mounted(self, *arguments: str, nodes: str = "", refused: str = "", **environment: str):
        """Runs zf-tune with these GPUs, with the names of nodes that may be opened, and of others."""
        result = self.run_tune(*arguments, before=["unshare", "--mount", "sh", "-c", MOUNT, "sh"], OPEN=nodes,
                               REFUSED=refused, **environment)
        self.assert_exit(result, DONE)
        return result

    def probe(self, **keywords) -> dict:
        found = json.loads(self.run_mounted("probe", "--format", "json", **keywords).stdout)
        if not found["gpus"]:
            self.skipTest("this hwloc does not see devices that are mounted over those of PCI")
        return found

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
