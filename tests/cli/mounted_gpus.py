"""What tests share that mount GPUs over those of this machine: devices of PCI, NVIDIA's driver, a /dev with nodes."""

import json
import os
import pathlib
import shutil

from node_folder import Device
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


class MountedGpusTest(CommandTest):
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

    def remove_gpus(self) -> None:
        shutil.rmtree(self.folder / "pci")
        shutil.rmtree(self.folder / "driver")

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
