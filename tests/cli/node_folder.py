"""Writes the /proc and /sys of a made-up machine into a folder, for --sysroot or to be mounted over this machine's."""

import pathlib
from dataclasses import dataclass, field

from zf_cli import parse_cpus, print_cpus

NVIDIA, AMD, INTEL = "0x10de", "0x1002", "0x8086"


def mask(cpus: set[int], total: int) -> str:
    """Returns the kernel's form of a set: words of 32 bits, the highest first."""
    value = sum(1 << cpu for cpu in cpus)
    return ",".join(f"{value >> 32 * word & 0xFFFFFFFF:08x}" for word in reversed(range((total + 31) // 32)))


@dataclass
class Device:
    """A PCI device near these CPUs. An NVIDIA GPU with a minor is known to its driver."""

    address: str
    cpus: str
    vendor: str = NVIDIA
    device: str = "0x2330"
    class_id: str = "0x030200"
    driver: str = ""
    minor: int | None = None
    nodes: tuple[str, ...] = ()  # names in its drm folder

    @property
    def uuid(self) -> str:
        return f"GPU-{self.minor:08d}-0000-0000-0000-000000000000"

    def files(self, total: int) -> dict[str, str]:
        folder = f"sys/bus/pci/devices/{self.address}"
        texts = {f"{folder}/class": self.class_id, f"{folder}/vendor": self.vendor, f"{folder}/device": self.device,
                 f"{folder}/subsystem_vendor": self.vendor, f"{folder}/subsystem_device": "0x1234",
                 f"{folder}/revision": "0xa1", f"{folder}/numa_node": "-1", f"{folder}/local_cpulist": self.cpus,
                 f"{folder}/local_cpus": mask(parse_cpus(self.cpus), total)}
        texts |= {f"{folder}/drm/{name}/dev": "226:0" for name in self.nodes}
        if self.driver:
            texts[f"{folder}/uevent"] = f"DRIVER={self.driver}"
        if self.minor is not None:
            texts[f"proc/driver/nvidia/gpus/{self.address}/information"] = (
                f"Model: \t\t NVIDIA H100\nGPU UUID: \t {self.uuid}\nDevice Minor: \t {self.minor}")
        return texts


@dataclass
class NodeFolder:
    """A machine with the CPUs of each package (its cores: lists of siblings) and of each NUMA node."""

    packages: list[list[list[int]]]
    nodes: list[str]
    devices: list[Device] = field(default_factory=list)
    device_nodes: list[str] = field(default_factory=list)  # "/dev/nvidia0": plain files stand for them

    def files(self) -> dict[str, str]:
        everything = {cpu for package in self.packages for core in package for cpu in core}
        total = len(everything)
        cpu_folder, node_folder = "sys/devices/system/cpu", "sys/devices/system/node"
        texts = {f"{cpu_folder}/{name}": print_cpus(everything) for name in ("online", "present", "possible")}
        nodes = print_cpus(set(range(len(self.nodes))))
        texts |= {f"{node_folder}/{name}": nodes for name in ("online", "possible", "has_memory")}
        for number, package in enumerate(self.packages):
            of_package = {cpu for core in package for cpu in core}
            for index, core in enumerate(package):
                for cpu in core:
                    folder = f"{cpu_folder}/cpu{cpu}/topology"
                    texts |= {f"{folder}/physical_package_id": str(number), f"{folder}/core_id": str(index)}
                    texts |= {f"{folder}/{name}": mask(set(core), total) for name in ("thread_siblings", "core_cpus")}
                    texts |= {f"{folder}/{name}": mask(of_package, total)
                              for name in ("core_siblings", "package_cpus")}
        for number, cpus in enumerate(self.nodes):
            folder = f"{node_folder}/node{number}"
            texts |= {f"{folder}/cpulist": cpus, f"{folder}/cpumap": mask(parse_cpus(cpus), total),
                      f"{folder}/meminfo": f"Node {number} MemTotal:       268435456 kB",
                      f"{folder}/distance": " ".join("10" if n == number else "20" for n in range(len(self.nodes)))}
        texts["proc/self/status"] = f"Cpus_allowed_list:\t{print_cpus(everything)}\nMems_allowed_list:\t{nodes}"
        for device in self.devices:
            texts |= device.files(total)
        return texts | {path.lstrip("/"): "" for path in self.device_nodes}

    def write(self, folder: pathlib.Path) -> None:
        for name, text in self.files().items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n")


def two_packages(cores: int) -> list[list[list[int]]]:
    """Returns two packages of so many cores each, with siblings half the machine apart."""
    return [[[core, core + 2 * cores] for core in range(first, first + cores)] for first in (0, cores)]


def nodes_of(packages: list[list[list[int]]]) -> list[str]:
    """Returns one NUMA node for each package."""
    return [print_cpus({cpu for core in package for cpu in core}) for package in packages]


def eight_gpus(nodes: list[str]) -> list[Device]:
    """Returns eight GPUs of NVIDIA, four on each of two NUMA nodes."""
    return [Device(f"0000:{0x10 * (i + 1):02x}:00.0", nodes[i // 4], minor=i) for i in range(8)]
