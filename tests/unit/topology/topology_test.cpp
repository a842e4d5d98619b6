#include "topology/topology.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <array>
#include <fstream>
#include <map>

#include "../os/tree.hpp"
#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "machine/fingerprint.hpp"
#include "machine/machine.hpp"
#include "machines.hpp"
#include "os/affinity.hpp"
#include "os/atomic_file.hpp"
#include "os/file.hpp"

/// hwloc 2.9 leaks the objects of an XML file that ends too soon, and one of these tests reads such a file.
/// Only LeakSanitizer calls this function.
// NOLINTNEXTLINE(clang-diagnostic-reserved-identifier,readability-identifier-naming)
extern "C" __attribute__((visibility("default"))) const char* __lsan_default_suppressions() {
  return "leak:hwloc_alloc_setup_object\nleak:libhwloc.so";
}

namespace zf {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

/// Returns the CPUs of each kind of slow-first.xml if its five kinds have these clocks and no capacities.
std::vector<std::string> kinds_with_clocks(const std::array<int, 5>& mhz) {
  std::string xml = read_text_file(own_machine("slow-first.xml"));
  for (const int clock : mhz) {
    const std::string name = "LinuxCapacity\" value=\"";
    const std::size_t begin = xml.find(name);
    const std::size_t end = xml.find('"', begin + name.size());
    xml.replace(begin, end - begin, format_text("FrequencyMaxMHz\" value=\"{}", clock));
  }
  const TestFolder folder;
  const std::string path = folder.path() / "node.xml";
  std::ofstream(path) << xml;
  std::vector<std::string> kinds;
  for (const CpuKind& kind : topology_of(path).cpu_kinds) kinds.push_back(print(kind.cpus));
  return kinds;
}

TEST(Topology, OfAFileClocksOfAmdThatRiseInSmallStepsAreOneKind) {
  const Topology topology = topology_of(own_machine("amd-ranked.xml"));
  EXPECT_LE(topology.cpu_kinds.size(), 1u);
  for (const Core& core : topology.cores) EXPECT_EQ(core.kind, 0);
}

TEST(Topology, OfAFileClocksThatDifferByAFewPerCentAreOneKind) {
  EXPECT_THAT(kinds_with_clocks({3600, 3650, 3700, 4600, 4700}), ElementsAre("0-14", "15-19"));
  EXPECT_THAT(kinds_with_clocks({3600, 3600, 3650, 3700, 3700}), ElementsAre("0-19"));
}

/// Returns the CPUs of each node; "" for nodes without CPUs.
std::map<int, std::string> cpus_by_node(const Topology& topology) {
  std::map<int, std::string> cpus;
  for (const auto& node : topology.nodes) cpus[node.id.os_index] = print(node.cpus);
  return cpus;
}

using Nodes = std::map<int, std::string>;

/// Checks that the cores partition the CPUs, that every core's node, L3 and kind exist and contain the core,
/// and that nodes without CPUs own none.
void expect_sound(const Topology& topology) {
  std::size_t pus = 0;
  CpuSet all;
  for (const auto& core : topology.cores) {
    EXPECT_FALSE(core.cpus.empty());
    pus += core.cpus.size();
    all |= core.cpus;
    if (core.l3 >= 0) {
      ASSERT_LT(core.l3, static_cast<int>(topology.l3_groups.size()));
      EXPECT_TRUE(topology.l3_groups[static_cast<std::size_t>(core.l3)].cpus.contains(core.cpus));
    }
    if (!topology.cpu_kinds.empty()) {
      EXPECT_TRUE(topology.cpu_kinds[static_cast<std::size_t>(core.kind)].cpus.contains(core.cpus));
    }
    if (core.node) {
      const auto node = std::find_if(topology.nodes.begin(), topology.nodes.end(),
                                     [&](const NumaNode& candidate) { return candidate.id == *core.node; });
      ASSERT_NE(node, topology.nodes.end());
      EXPECT_TRUE(node->cpus.contains(core.cpus));
    }
  }
  EXPECT_EQ(all, topology.cpus);
  EXPECT_EQ(pus, topology.cpus.size()) << "a PU in two cores";
  CpuSet owned;
  for (const auto& node : topology.nodes) {
    EXPECT_FALSE(owned.intersects(node.cpus)) << "a CPU on two nodes";
    owned |= node.cpus;
  }
  EXPECT_TRUE(topology.complete_cpus.contains(topology.cpus));
  EXPECT_TRUE(topology.cpus.contains(topology.allowed_cpus));
}

TEST(Topology, EveryOwnMachineIsSound) {
  int machines = 0;
  for (const auto& entry : std::filesystem::directory_iterator(own_machine(""))) {
    if (entry.path().extension() != ".xml") continue;
    SCOPED_TRACE(entry.path());
    expect_sound(topology_of(entry.path()));
    ++machines;
  }
  EXPECT_GE(machines, 10);
}

TEST(Topology, Qemu2ht) {
  const Topology topology = topology_of(own_machine("qemu-2ht.xml"));
  EXPECT_FALSE(topology.is_this_machine);
  EXPECT_EQ(topology.packages, 2);
  EXPECT_EQ(cpus_by_node(topology), (Nodes{{0, "0-1,4-5"}, {1, "2-3,6-7"}}));
  ASSERT_EQ(topology.cores.size(), 4u);
  EXPECT_EQ(print(topology.cores[0].cpus), "0,4");
  EXPECT_EQ(print(topology.cores[3].cpus), "3,7");
  EXPECT_EQ(topology.cores[3].package, 1);
  EXPECT_EQ(topology.cores[3].l3, 1);
  EXPECT_EQ(last_level_cache_bytes(topology), 2u * (16u << 20));
}

TEST(Topology, Qemu2htOffline) {
  const Topology topology = topology_of(own_machine("qemu-2ht-offline2,5.xml"));
  EXPECT_EQ(print(topology.cpus), "0-1,3-4,6-7");
  EXPECT_EQ(print(topology.complete_cpus - topology.cpus), "2,5");
  EXPECT_EQ(print(topology.cores[1].cpus), "1");
  EXPECT_EQ(print(topology.cores[2].cpus), "3,7");
  EXPECT_EQ(print(topology.cores[3].cpus), "6");
}

TEST(Topology, QemuCgroupCpusetIsHonoured) {
  const Topology topology = topology_of(own_machine("qemu-2n-cgroup2-cpuset-0,4-5-mems0.xml"));
  EXPECT_EQ(print(topology.cpus), "0-7");
  EXPECT_EQ(print(topology.allowed_cpus), "0,4-5");
  EXPECT_EQ(print(topology.allowed_nodes), "0");
}

TEST(Topology, QemuCpulessMemonlyNomem) {
  EXPECT_EQ(cpus_by_node(topology_of(own_machine("qemu-cpuless.xml"))), (Nodes{{0, "0-3"}, {1, ""}}));
  EXPECT_EQ(cpus_by_node(topology_of(own_machine("qemu-memonly.xml"))),
            (Nodes{{0, "0-3"}, {1, "4-7"}, {2, ""}}));
  const Topology nomem = topology_of(own_machine("qemu-nomem.xml"));
  EXPECT_EQ(cpus_by_node(nomem), (Nodes{{0, "0-1"}, {1, "2-3"}}));
  EXPECT_EQ(nomem.nodes[1].memory_bytes, 0u);
}

TEST(Topology, QemuDiesHaveTwoCachesPerNode) {
  const Topology topology = topology_of(own_machine("qemu-dies.xml"));
  ASSERT_EQ(topology.l3_groups.size(), 4u);
  EXPECT_EQ(print(topology.l3_groups[1].cpus), "2-3");
  EXPECT_EQ(topology.cores[2].l3, 1);
}

TEST(Topology, KnlFlatSnc4KeepsMcdramWithoutCpus) {
  ZF_NEED_MACHINE(path, "knl-snc4-flat-hwloc1.xml");
  const Topology topology = topology_of(path);
  expect_sound(topology);
  const Nodes nodes = cpus_by_node(topology);
  ASSERT_EQ(nodes.size(), 8u);
  EXPECT_EQ(nodes.at(0), "0-17,68-85,136-153,204-221");
  for (const int mcdram : {4, 5, 6, 7}) EXPECT_EQ(nodes.at(mcdram), "");
  EXPECT_EQ(topology.nodes[4].subtype, "MCDRAM");
  EXPECT_EQ(topology.cores.front().l3, -1);
  EXPECT_EQ(topology.cores.front().cpus.size(), 4u);
}

TEST(Topology, LassenHasGpusOnNode0AndNode8) {
  ZF_NEED_MACHINE(path, "coral-lassen.xml");
  const Topology topology = topology_of(path);
  expect_sound(topology);
  EXPECT_EQ(print(topology.cores.front().cpus), "8-11");
  EXPECT_EQ(topology.complete_cpus.first().os_index, 0);
  ASSERT_EQ(topology.gpus.size(), 4u);
  EXPECT_EQ(topology.gpus[1].node, Node{0});
  EXPECT_EQ(topology.gpus[2].node, Node{8});
  EXPECT_EQ(topology.gpus[2].name, "Tesla V100-SXM2-16GB");
}

TEST(Topology, GpusOfPascalG4dnAndCorona) {
  const auto nodes_of = [](const Topology& topology) {
    std::vector<int> nodes;
    for (const auto& gpu : topology.gpus) nodes.push_back(gpu.node ? gpu.node->os_index : -1);
    return nodes;
  };
  ZF_NEED_MACHINE(pascal, "cts1-pascal.xml");
  ZF_NEED_MACHINE(g4dn, "g4dnmetal.xml");
  ZF_NEED_MACHINE(corona, "epyc-corona.xml");
  EXPECT_THAT(nodes_of(topology_of(pascal)), testing::ElementsAre(0, 0));
  EXPECT_THAT(nodes_of(topology_of(g4dn)), testing::ElementsAre(0, 0, 0, 0, 1, 1, 1, 1));
  EXPECT_THAT(nodes_of(topology_of(corona)), testing::ElementsAre(1, 2, 5, 7));
  EXPECT_EQ(topology_of(pascal).gpus[0].pci_address, "0000:04:00.0");
}

TEST(Topology, MemoryTiersBelongToNoCore) {
  ZF_NEED_MACHINE(path, "converted/fakeheteromemtiers.xml");
  const Topology topology = topology_of(path);
  expect_sound(topology);
  // Only HBM and NVM are local to cores 4-5; they belong to HBM.
  EXPECT_EQ(cpus_by_node(topology),
            (Nodes{{0, "0-1"}, {1, "2-3"}, {2, "4-5"}, {4, ""}, {6, ""}, {8, ""}, {9, ""}}));
  EXPECT_EQ(topology.nodes[3].subtype, "HBM");
  EXPECT_EQ(topology.nodes[0].subtype, "") << "plain DRAM";
}

TEST(Topology, OfflineNodeLeavesCoresWithoutOne) {
  ZF_NEED_MACHINE(path, "converted/offline-cpu0-node0.xml");
  const Topology topology = topology_of(path);
  expect_sound(topology);
  EXPECT_EQ(print(topology.complete_cpus - topology.cpus), "0-3,21-23");
  EXPECT_EQ(topology.cores.front().node, std::nullopt);
  EXPECT_EQ(topology.cores.back().node, Node{1});
}

TEST(Topology, HybridHasTwoKinds) {
  ZF_NEED_MACHINE(path, "converted/20em64t-hybrid-1p6c2t+2ca4co1t.xml");
  const Topology topology = topology_of(path);
  expect_sound(topology);
  ASSERT_EQ(topology.cpu_kinds.size(), 2u);
  EXPECT_EQ(print(topology.cpu_kinds[0].cpus), "12-19") << "the efficient ones come first";
  EXPECT_EQ(topology.cores.front().kind, 1);
  EXPECT_EQ(topology.cores.back().kind, 0);
  EXPECT_TRUE(topology.gpus.empty()) << "graphics inside the CPU do not train";
}

TEST(Topology, SparseNodesAndGenoa) {
  ZF_NEED_MACHINE(sparse, "converted/48amd64-4pa2n6c-sparse.xml");
  ZF_NEED_MACHINE(genoa, "converted/AMD-19h-Zen4-2xEpyc-9654.xml");
  std::vector<int> ids;
  for (const auto& node : topology_of(sparse).nodes) ids.push_back(node.id.os_index);
  EXPECT_THAT(ids, testing::ElementsAre(0, 1, 2, 33, 34, 45, 72, 73));

  const Topology big = topology_of(genoa);
  expect_sound(big);
  EXPECT_EQ(big.cpus.size(), 384u);
  EXPECT_EQ(big.l3_groups.size(), 24u);
  EXPECT_EQ(big.cpu_model, "AMD EPYC 9654 96-Core Processor");
}

TEST(Topology, SyntheticSlurmNode) {
  const Topology topology = topology_of("pack:2 [numa(memory=256GiB)] l3u:2 core:12 pu:1");
  expect_sound(topology);
  EXPECT_EQ(cpus_by_node(topology), (Nodes{{0, "0-23"}, {1, "24-47"}}));
  EXPECT_EQ(topology.nodes[0].memory_bytes, std::uint64_t{256} << 30);
  EXPECT_EQ(topology.l3_groups.size(), 4u);
}

TEST(Topology, BareSyntheticMachineHasACorePerPu) {
  const Topology topology = topology_of("numa:2 pu:4");
  expect_sound(topology);
  EXPECT_EQ(topology.cores.size(), 8u);
  EXPECT_EQ(topology.packages, 1);
}

TEST(Topology, ThisMachine) {
  const Topology topology = read_topology({});
  expect_sound(topology);
  EXPECT_TRUE(topology.is_this_machine);
  EXPECT_TRUE(topology.missing.empty());
  EXPECT_TRUE(topology.cpus.contains(thread_affinity()));
}

TEST(Topology, EnvironmentNeverReplacesTheMachine) {
  const Topology before = read_topology({});
  ::setenv("HWLOC_SYNTHETIC", "pack:4 core:4 pu:2", 1);
  ::setenv("HWLOC_XMLFILE", own_machine("qemu-8n.xml").c_str(), 1);
  const Topology real = read_topology({});
  const Topology xml = topology_of(own_machine("qemu-2n.xml"));
  EXPECT_STREQ(::getenv("HWLOC_SYNTHETIC"), "pack:4 core:4 pu:2") << "the user's environment is left alone";
  ::unsetenv("HWLOC_SYNTHETIC");
  ::unsetenv("HWLOC_XMLFILE");
  EXPECT_EQ(real.complete_cpus, before.complete_cpus);
  EXPECT_EQ(xml.cpus.size(), 8u);
}

TEST(Topology, IoThatTakesTooLongIsMissingAndTheRestIsThere) {
  TopologySource source;
  source.io_deadline = std::chrono::milliseconds(0);
  const Topology topology = read_topology(source);
  expect_sound(topology);
  EXPECT_THAT(topology.missing, testing::ElementsAre(HasSubstr("no GPUs are known")));
}

TEST(Topology, WithoutIoNothingIsAskedAndNothingIsMissing) {
  TopologySource source;
  source.io_deadline = std::chrono::milliseconds(0);
  source.with_io = false;
  const Topology topology = read_topology(source);
  expect_sound(topology);
  EXPECT_TRUE(topology.gpus.empty());
  EXPECT_TRUE(topology.missing.empty());
  EXPECT_EQ(machine_class_of(topology), machine_class_of(read_topology({})));
}

TEST(Topology, WhatCannotBeReadIsRefusedInWords) {
  TestFolder folder;
  const std::string newer = folder.path() / "newer.xml";
  const std::string cut = folder.path() / "cut.xml";
  const std::string good = read_text_file(own_machine("qemu-2n.xml"));
  std::string of_version_9 = good;  // hwloc 2.12 reads version 3 too
  of_version_9.replace(good.find("version=\"2.0\""), 13, "version=\"9.0\"");
  write_text_file_atomically(newer, of_version_9);
  write_text_file_atomically(cut, good.substr(0, good.size() / 2));

  for (const auto& [source, words] :
       std::map<std::string, std::string>{{newer, "hwloc 3"},
                                          {cut, "cannot read this as XML"},
                                          {folder.path() / "absent.xml", "No such file"},
                                          {folder.path(), "is a folder"},
                                          {"pack:2 foo:3", "cannot read it"},
                                          {"nonsense", "there is no such file"}}) {
    try {
      topology_of(source);
      FAIL() << source;
    } catch (const Error& error) {
      EXPECT_EQ(error.exit(), Exit::usage) << source;
      EXPECT_THAT(error.what(), AllOf(HasSubstr(source), HasSubstr(words)));
    }
  }
  TopologySource empty_root;
  empty_root.sysroot = SysRoot(folder.path());
  EXPECT_THROW(read_topology(empty_root), Error);
}

TEST(Machine, XmlMadeInsideACpuset) {
  MachineSource source;
  source.topology = own_machine("qemu-2n-cgroup2-cpuset-0,4-5-mems0.xml");
  const Allowed allowed = read_machine(source).allowed;
  EXPECT_EQ(print(allowed.cpus), "0,4-5");
  EXPECT_EQ(print(allowed.mems), "0");
  ASSERT_EQ(allowed.exclusions.size(), 1u);
  EXPECT_EQ(allowed.exclusions[0].reason, ExclusionReason::cgroup_cpuset);
}

TEST(Machine, SlurmSparse32) {
  MachineSource source;
  source.topology = "pack:2 [numa(memory=256GiB)] l3u:2 core:12 pu:1";
  source.allowed = parse_cpu_list("0,4-11,21-26,30-46", "test");
  source.mems = parse_node_list("1", "test");
  const Allowed allowed = read_machine(source).allowed;
  EXPECT_EQ(print(allowed.cpus), "0,4-11,21-26,30-46");
  EXPECT_EQ(print(allowed.mems), "1");
}

TEST(Machine, NodesOfUnknownSizeMayBeUsed) {
  MachineSource source;
  source.topology = "numa:2(memory=0) pu:4";
  EXPECT_EQ(print(read_machine(source).allowed.mems), "0-1");
}

TEST(Machine, FolderWithTwoCpusOffAndACpuset) {
  Tree tree;
  tree.machine("0-3", "0");
  tree.file("/sys/devices/system/cpu/online", "0-2").file("/proc/self/cgroup", "0::/job");
  tree.file("/proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw");
  tree.file("/sys/fs/cgroup/job/cpuset.cpus.effective", "1-3");
  tree.file("/sys/devices/system/cpu/possible", "0-3").file("/sys/devices/system/node/online", "0");
  tree.file("/sys/devices/system/node/node0/cpumap", "7")
      .file("/sys/devices/system/node/node0/cpulist", "0-2");
  tree.file("/sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:       1048576 kB");
  for (const std::string cpu : {"0", "1", "2"}) {
    const std::string folder = "/sys/devices/system/cpu/cpu" + cpu + "/topology/";
    const std::string own = std::to_string(1 << std::stoi(cpu));
    tree.file(folder + "core_id", cpu).file(folder + "physical_package_id", "0");
    tree.file(folder + "thread_siblings", own).file(folder + "core_cpus", own);
    tree.file(folder + "core_siblings", "7").file(folder + "package_cpus", "7");
  }
  MachineSource source;
  source.sysroot = tree.sysroot();
  const Machine machine = read_machine(source);
  expect_sound(machine.topology);
  EXPECT_EQ(print(machine.topology.cpus), "0-2");
  EXPECT_EQ(cpus_by_node(machine.topology), (Nodes{{0, "0-2"}}));
  EXPECT_EQ(print(machine.allowed.cpus), "1-2");
  ASSERT_EQ(machine.allowed.exclusions.size(), 2u);
  EXPECT_EQ(print(machine.allowed.exclusions[0].cpus), "3");
  EXPECT_THAT(machine.allowed.exclusions[1].detail, HasSubstr("/sys/fs/cgroup/job/cpuset.cpus.effective"));
}

/// Adds one node of two CPUs with one GPU.
void one_gpu(Tree& tree) {
  tree.machine("0-1", "0");
  tree.file("/sys/devices/system/cpu/possible", "0-1").file("/sys/devices/system/node/online", "0");
  tree.file("/sys/devices/system/node/node0/cpumap", "3")
      .file("/sys/devices/system/node/node0/cpulist", "0-1");
  tree.file("/sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:       1048576 kB");
  for (const std::string cpu : {"0", "1"}) {
    const std::string folder = "/sys/devices/system/cpu/cpu" + cpu + "/topology/";
    const std::string own = std::to_string(1 << std::stoi(cpu));
    tree.file(folder + "core_id", cpu).file(folder + "physical_package_id", "0");
    tree.file(folder + "thread_siblings", own).file(folder + "core_cpus", own);
    tree.file(folder + "core_siblings", "3").file(folder + "package_cpus", "3");
  }
  const std::string device = "/sys/bus/pci/devices/0000:3b:00.0/";
  tree.file(device + "class", "0x030200").file(device + "vendor", "0x10de").file(device + "device", "0x2330");
  tree.file(device + "local_cpus", "3");
  tree.file("/proc/driver/nvidia/gpus/0000:3b:00.0/information",
            "GPU UUID: \t GPU-8932f937-d72c\nDevice Minor: \t 4");
}

TEST(Machine, GpusAndWhatTheirDriverSaysUnlessNobodyAsks) {
  Tree tree;
  one_gpu(tree);
  MachineSource source;
  source.sysroot = tree.sysroot();
  const Topology topology = read_machine(source).topology;
  if (topology.gpus.empty()) GTEST_SKIP() << "this hwloc finds no PCI devices in a folder";
  EXPECT_EQ(topology.gpus[0].uuid, "GPU-8932f937-d72c");
  EXPECT_EQ(topology.gpus[0].minor, 4);
  EXPECT_TRUE(topology.missing.empty());
  source.with_io = false;
  EXPECT_TRUE(read_machine(source).topology.gpus.empty());
  EXPECT_TRUE(read_machine(source).topology.missing.empty());
}

TEST(Machine, AGpuOnVfioOrWithoutItsNodeIsNotGivenToRanks) {
  Tree tree;
  one_gpu(tree);
  tree.file("/dev/nvidia5", "").file("/sys/bus/pci/devices/0000:3b:00.0/uevent", "DRIVER=nvidia");
  MachineSource source;
  source.sysroot = tree.sysroot();
  if (read_machine(source).topology.gpus.empty())
    GTEST_SKIP() << "this hwloc finds no PCI devices in a folder";
  EXPECT_TRUE(read_machine(source).topology.gpus[0].usable) << "only who plans looks at device nodes";
  source.with_device_nodes = true;
  EXPECT_EQ(read_machine(source).topology.gpus[0].why_unusable, "/dev/nvidia4 is not here");
  tree.file("/dev/nvidia4", "");
  EXPECT_TRUE(read_machine(source).topology.gpus[0].usable);
  tree.file("/sys/bus/pci/devices/0000:3b:00.0/uevent", "DRIVER=vfio-pci");
  const Topology bound = read_machine(source).topology;
  EXPECT_TRUE(bound.gpus.empty());
  ASSERT_EQ(bound.left_out.size(), 1U);
  EXPECT_THAT(bound.left_out[0].why, HasSubstr("vfio-pci"));
}

TEST(Machine, OfACaptureTheDriverRulesOutWhatTheXmlLists) {
  Tree tree;
  tree.file("/sys/bus/pci/devices/0000:86:00.0/uevent", "DRIVER=vfio-pci");
  MachineSource source;
  source.topology = own_machine("cuda-order.xml");
  EXPECT_EQ(read_machine(source).topology.gpus.size(), 2U);
  source.sysroot = tree.sysroot();
  ASSERT_EQ(read_machine(source).topology.gpus.size(), 1U);
  EXPECT_EQ(read_machine(source).topology.gpus[0].pci_address, "0000:06:00.0");
}

/// Adds a node of four CPUs in two packages, with two nodes of these CPUs.
void two_packages(Tree& tree, const std::string& node0, const std::string& node1) {
  tree.machine("0-3", "0-1").file("/sys/devices/system/cpu/possible", "0-3");
  tree.file("/sys/devices/system/node/online", "0-1");
  for (const auto& [node, cpus] : std::map<std::string, std::string>{{"0", node0}, {"1", node1}}) {
    const std::string folder = "/sys/devices/system/node/node" + node;
    int mask = 0;
    for (const Pu cpu : parse_cpu_list(cpus, "test")) mask |= 1 << cpu.os_index;
    tree.file(folder + "/cpumap", format_text("{:x}", mask)).file(folder + "/cpulist", cpus);
    tree.file(folder + "/meminfo", format_text("Node {} MemTotal:       1048576 kB", node));
  }
  for (int cpu = 0; cpu < 4; ++cpu) {
    const std::string folder = format_text("/sys/devices/system/cpu/cpu{}/topology/", cpu);
    const std::string package = cpu < 2 ? "3" : "c";
    tree.file(folder + "core_id", std::to_string(cpu % 2))
        .file(folder + "physical_package_id", cpu < 2 ? "0" : "1");
    tree.file(folder + "thread_siblings", format_text("{:x}", 1 << cpu))
        .file(folder + "core_cpus", format_text("{:x}", 1 << cpu));
    tree.file(folder + "core_siblings", package).file(folder + "package_cpus", package);
  }
}

TEST(Machine, NodesThatCrossPackagesSayNotWhichMemoryIsNear) {
  Tree crossed;
  two_packages(crossed, "0,2", "1,3");
  MachineSource source;
  source.sysroot = crossed.sysroot();
  EXPECT_TRUE(read_machine(source).topology.nodes_contradict);
  Tree inside;
  two_packages(inside, "0-1", "2-3");
  source.sysroot = inside.sysroot();
  EXPECT_FALSE(read_machine(source).topology.nodes_contradict);
}

}  // namespace
}  // namespace zf
