#!/usr/bin/env python3
"""Writes the machines that we describe ourselves, as XML of hwloc 2, into this folder.

No tool made them on a real machine: each has only what its test needs. Run it again after a change and review the
difference.
"""
import itertools
import pathlib
from dataclasses import dataclass, field


@dataclass
class Device:
    """A PCI device near an L3 group (by number), a NUMA node, or a package: the object that `near` names."""
    near: str
    bus: str
    pci: str  # "0380 [1002:7408]"
    os_device: str = ""


@dataclass
class Tier:
    """Memory without CPUs, near those of a NUMA node (by number)."""
    near: int
    index: int
    bytes: int
    subtype: str


@dataclass
class Machine:
    """A machine with equal packages, NUMA nodes, L3 groups and cores. Siblings are `cores` apart."""
    packages: int
    nodes: int  # in a package
    groups: int  # in a node
    cores: int  # in a group
    pus: int = 1
    devices: list = field(default_factory=list)
    kinds: list = field(default_factory=list)  # (first core, last core, capacity)
    tiers: list = field(default_factory=list)
    vendor: str = ""  # of the CPUs
    clocks: list = field(default_factory=list)  # the highest clock of each core, in MHz
    empty: tuple = ()  # NUMA nodes without memory


def mask(bits):
    """Returns hwloc's form of a set: words of 32 bits, the highest first."""
    value = sum(1 << bit for bit in set(bits))
    words = []
    while value or not words:
        words.insert(0, f"0x{value & 0xFFFFFFFF:08x}")
        value >>= 32
    return ",".join(words)


class Writer:
    """Prints the objects from the machine down to the PUs."""

    def __init__(self, machine):
        self.machine = machine
        self.numbers = itertools.count(1)
        self.lines = []
        self.all_cores = machine.packages * machine.nodes * machine.groups * machine.cores

    def cpus(self, first, count):
        return [core + t * self.all_cores for t in range(self.machine.pus) for core in range(first, first + count)]

    def near(self, nodes):
        """Returns these nodes and the memory without CPUs near them."""
        return [*nodes, *(tier.index for tier in self.machine.tiers if tier.near in nodes)]

    def put_memory(self, depth, index, cpus, size, subtype=""):
        """Puts a NUMA node."""
        more = f' subtype="{subtype}"' if subtype else ""
        self.open(depth, "NUMANode", index, cpus, [index], f'{more} local_memory="{size}"')
        self.close(depth)

    def open(self, depth, kind, index, cpus, nodes, more=""):
        both = f'cpuset="{mask(cpus)}" complete_cpuset="{mask(cpus)}"'
        memory = f'nodeset="{mask(nodes)}" complete_nodeset="{mask(nodes)}"'
        name = f'type="{kind}" os_index="{index}"'
        self.lines.append(f'{"  " * depth}<object {name} {both} {memory} gp_index="{next(self.numbers)}"{more}>')

    def close(self, depth):
        self.lines.append("  " * depth + "</object>")

    def put_devices(self, depth, near):
        for device in (d for d in self.machine.devices if d.near == near):
            pad = "  " * depth
            domain, bus, _ = device.bus.split(":")
            self.lines.append(f'{pad}<object type="Bridge" gp_index="{next(self.numbers)}" bridge_type="0-1" depth="0" '
                              f'bridge_pci="{domain}:[{bus}-{bus}]">')
            vendor = device.pci + " [0000:0000] 00"
            self.lines.append(f'{pad}  <object type="PCIDev" gp_index="{next(self.numbers)}" pci_busid="{device.bus}" '
                              f'pci_type="{vendor}" pci_link_speed="0.000000">')
            if device.os_device:
                self.lines.append(f'{pad}    <object type="OSDev" gp_index="{next(self.numbers)}" '
                                  f'name="{device.os_device}" '
                                  f'osdev_type="{5 if device.os_device.startswith(("cuda", "ze")) else 1}"/>')
            self.lines += [f"{pad}  </object>", f"{pad}</object>"]

    def text(self):
        m = self.machine
        all_nodes = self.near(range(m.packages * m.nodes))
        everything = self.cpus(0, self.all_cores)
        allowed = f' allowed_cpuset="{mask(everything)}" allowed_nodeset="{mask(all_nodes)}"'
        self.open(1, "Machine", 0, everything, all_nodes, allowed)
        of_node = m.groups * m.cores
        for package in range(m.packages):
            nodes = range(package * m.nodes, (package + 1) * m.nodes)
            self.open(2, "Package", package, self.cpus(package * m.nodes * of_node, m.nodes * of_node),
                      self.near(nodes))
            if m.vendor:
                self.lines.append(f'    <info name="CPUVendor" value="{m.vendor}"/>')
            for node in nodes:
                cpus = self.cpus(node * of_node, of_node)
                local = self.near([node])
                if m.nodes > 1:
                    self.open(3, "Group", node, cpus, local, ' kind="1001" subkind="0"')
                self.put_memory(4, node, cpus, 0 if node in m.empty else 128 << 30)
                for tier in (t for t in m.tiers if t.near == node):
                    self.put_memory(4, tier.index, cpus, tier.bytes, tier.subtype)
                for group in range(node * m.groups, (node + 1) * m.groups):
                    size = (f' cache_size="{32 << 20}" depth="3" cache_linesize="64" cache_associativity="16" '
                            f'cache_type="0"')
                    self.open(4, "L3Cache", group, self.cpus(group * m.cores, m.cores), local, size)
                    for core in range(group * m.cores, (group + 1) * m.cores):
                        self.open(5, "Core", core, self.cpus(core, 1), local)
                        for pu in self.cpus(core, 1):
                            self.open(6, "PU", pu, [pu], local)
                            self.close(6)
                        self.close(5)
                    self.put_devices(5, f"l3 {group}")
                    self.close(4)
                self.put_devices(4, f"node {node}")
                if m.nodes > 1:
                    self.close(3)
            self.close(2)
        self.close(1)
        kinds = [(first, last, f'LinuxCapacity" value="{capacity}') for first, last, capacity in m.kinds]
        kinds += [(core, core, f'FrequencyMaxMHz" value="{clock}') for core, clock in enumerate(m.clocks)]
        for first, last, info in kinds:
            self.lines.append(f'  <cpukind cpuset="{mask(self.cpus(first, last - first + 1))}">')
            self.lines += [f'    <info name="{info}"/>', "  </cpukind>"]
        head = ['<?xml version="1.0" encoding="UTF-8"?>', '<!DOCTYPE topology SYSTEM "hwloc2.dtd">',
                '<topology version="2.0">']
        return "\n".join(head + self.lines + ["</topology>", ""])


def mi250x(order):
    """Returns a node with its i-th GPU in PCI order near the L3 group order[i]."""
    buses = ["c1", "c6", "c9", "ce", "d1", "d6", "d9", "de"]
    devices = [Device(f"l3 {group}", f"0000:{bus}:00.0", "0380 [1002:7408]", f"rsmi{i}")
               for i, (bus, group) in enumerate(zip(buses, order))]
    return Machine(1, 4, 2, 8, 2, devices)


MACHINES = {
    "mi250x": mi250x([6, 7, 2, 3, 0, 1, 4, 5]),
    "mi250x-crossed": mi250x([7, 6, 3, 2, 1, 0, 5, 4]),
    "slow-first": Machine(1, 1, 2, 10, kinds=[(0, 4, 718), (10, 14, 731), (5, 9, 997), (15, 18, 1017), (19, 19, 1024)]),
    "bmc-vga": Machine(2, 1, 1, 6, 1, [
        Device("node 0", "0000:01:03.0", "0300 [1002:515e]"),
        Device("node 0", "0000:06:00.0", "0302 [10de:06d2]"),
        Device("node 1", "0000:11:00.0", "0302 [10de:06d2]"),
        Device("node 1", "0000:14:00.0", "0302 [10de:06d2]"),
        Device("node 1", "0000:19:00.0", "0300 [1002:164e]"),
    ]),
    "qat": Machine(2, 1, 1, 4, 2, [
        Device("node 0", "0000:3d:00.0", "0b40 [8086:37c8]"),
        Device("node 0", "0000:6b:00.0", "0b40 [8086:4940]"),
        Device("node 0", "0000:6b:00.1", "0b40 [8086:4941]"),
        Device("node 0", "0000:6d:00.0", "0b40 [8086:2710]"),
        Device("node 1", "0000:b1:00.0", "1200 [8086:0b2b]"),
        Device("node 1", "0000:e8:00.0", "0b40 [8086:4940]"),
    ]),
    "npu": Machine(1, 1, 1, 8, 1, [
        Device("node 0", "0000:00:02.0", "0300 [8086:7d67]"),
        Device("node 0", "0000:00:0b.0", "1200 [8086:ad1d]", "ze0"),
        Device("node 0", "0000:01:00.0", "0302 [10de:2684]"),
    ]),
    "persistent-memory": Machine(2, 1, 1, 8, 2, tiers=[Tier(0, 2, 512 << 30, "NVM"), Tier(1, 3, 512 << 30, "NVM")]),
    "amd-ranked": Machine(1, 1, 2, 8, 2, vendor="AuthenticAMD", clocks=[5350 + 130 * core for core in range(16)]),
    "nps4-empty-node": Machine(2, 4, 1, 6, 1, empty=(5,)),
    "cuda-order": Machine(2, 1, 1, 4, 1, [
        Device("node 0", "0000:06:00.0", "0302 [10de:2330]", "cuda1"),
        Device("node 1", "0000:86:00.0", "0302 [10de:2330]", "cuda0"),
    ]),
    "eight-gpus": Machine(2, 2, 1, 8, 1, [
        Device(f"node {gpu // 2}", f"0000:{0x10 * (gpu + 1):02x}:00.0", "0302 [10de:2330]") for gpu in range(8)
    ]),
    "gpus-in-turn": Machine(2, 1, 1, 8, 1, [
        Device(f"node {gpu % 2}", f"0000:{0x10 * (gpu + 1):02x}:00.0", "0302 [10de:2330]") for gpu in range(4)
    ]),
}

if __name__ == "__main__":
    for name, machine in MACHINES.items():
        (pathlib.Path(__file__).parent / f"{name}.xml").write_text(Writer(machine).text())
