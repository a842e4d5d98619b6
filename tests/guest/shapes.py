"""The machines that QEMU can be: packages, cores, SMT, NUMA nodes and their distances. Pure: values to words."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Shape:
    smp: str  # QEMU's -smp
    node_cpus: tuple[str, ...]  # of each NUMA node; "" where the CPUs are plugged in later
    distances: tuple[tuple[int, ...], ...]
    memory_mib: int  # over all nodes
    plugged: tuple[tuple[int, int, int], ...] = ()  # (package, core, thread), in the order of their CPU numbers
    packages_to_nodes: tuple[int, ...] = ()  # for plugged CPUs: the node of each package
    kernel_words: str = ""  # more of the kernel's command line
    gpu_nodes: tuple[int, ...] = ()  # the node that each GPU is near, in the order of their PCI addresses

    @property
    def cpus(self) -> int:
        """How many CPUs the guest has once all are plugged in."""
        return int(self.smp.split(",")[0]) + len(self.plugged)


# Named as the machines of tests/machines. SMT siblings: of 2n 0,1 | 2,3 | …; of 2ht 0,4 | 1,5 | …
SHAPES = {
    "2n": Shape("8,sockets=2,cores=2,threads=2", ("0-3", "4-7"), ((10, 21), (21, 10)), 1024),
    "2n-gpus": Shape("8,sockets=2,cores=2,threads=2", ("0-3", "4-7"), ((10, 21), (21, 10)), 1024, gpu_nodes=(1, 0)),
    "2n-isolated": Shape("8,sockets=2,cores=2,threads=2", ("0-3", "4-7"), ((10, 21), (21, 10)), 1024,
                         kernel_words="isolcpus=6-7"),
    "2ht": Shape(
        "1,maxcpus=8,sockets=2,cores=2,threads=2",
        ("", ""),
        ((10, 21), (21, 10)),
        1024,
        plugged=((0, 1, 0), (1, 0, 0), (1, 1, 0), (0, 0, 1), (0, 1, 1), (1, 0, 1), (1, 1, 1)),
        packages_to_nodes=(0, 1),
    ),
    "4n": Shape(
        "8,sockets=2,cores=4,threads=1",
        ("0-1", "2-3", "4-5", "6-7"),
        ((10, 12, 32, 32), (12, 10, 32, 32), (32, 32, 10, 12), (32, 32, 12, 10)),
        1024,
    ),
    "48": Shape("48,sockets=2,cores=24,threads=1", ("0-23", "24-47"), ((10, 21), (21, 10)), 1536),
}


def qemu_words(shape: Shape) -> list[str]:
    """-smp, -m, the NUMA nodes and the GPUs."""
    share = shape.memory_mib // len(shape.node_cpus)
    words = ["-smp", shape.smp, "-m", str(share * len(shape.node_cpus))]
    for node, cpus in enumerate(shape.node_cpus):
        words += ["-object", f"memory-backend-ram,id=node{node},size={share}M"]
        words += ["-numa", f"node,nodeid={node},memdev=node{node}" + (f",cpus={cpus}" if cpus else "")]
    for package, node in enumerate(shape.packages_to_nodes):
        words += ["-numa", f"cpu,node-id={node},socket-id={package}"]
    for source, row in enumerate(shape.distances):
        for target, distance in enumerate(row):
            words += ["-numa", f"dist,src={source},dst={target},val={distance}"]
    for gpu, node in enumerate(shape.gpu_nodes):
        # zf-tune takes ATI's device for a GPU, and ignores QEMU's own. Only a root bus (pxb-pcie) can be near a node.
        words += ["-device", f"pxb-pcie,id=root{gpu},bus_nr={0x40 * (gpu + 1)},numa_node={node},bus=pcie.0"]
        words += ["-device", f"pcie-root-port,id=port{gpu},bus=root{gpu},chassis={gpu},slot={gpu}"]
        words += ["-device", f"ati-vga,bus=port{gpu},romfile="]
    return words
