// Machines with a /sys that shows hwloc only a part of them.
#include "topology/hwloc_view.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../machine/sysroot_machine.hpp"
#include "base/error.hpp"
#include "machine/fingerprint.hpp"
#include "topology/pci_locality.hpp"

namespace zf {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr const char* kModel = "A processor";

/// Adds what /proc/cpuinfo says of this number of CPUs, which it counts from 0.
void add_cpuinfo(Tree& tree, int cpus) {
  std::string text;
  for (int cpu = 0; cpu < cpus; ++cpu) {
    text += format_text("processor\t: {}\nvendor_id\t: GenuineIntel\nmodel name\t: {}\n\n", cpu, kModel);
  }
  tree.file("/proc/cpuinfo", text);
}

void add_mask(Tree& tree, const std::string& cpus) {
  tree.file("/proc/self/status", "Name:\tcat\nCpus_allowed_list:\t" + cpus + "\nMems_allowed_list:\t0");
}

/// Returns the machine as it is outside of all containers.
Topology host(int cpus) {
  Tree tree;
  add_cores(tree, cpus);
  add_cpuinfo(tree, cpus);
  return machine_in(tree).topology;
}

TEST(HwlocView, AMachineThatShowsAllNeedsNone) {
  Tree tree;
  add_cores(tree, 4);
  EXPECT_FALSE(hidden_cpus(tree.sysroot(), read_online_cpus(tree.sysroot())).any());
  EXPECT_FALSE(hidden_cpus(SysRoot(), read_online_cpus(SysRoot())).any());
}

TEST(HwlocView, UnderLxcfsTheMachineIsTheHostsAndTheMaskIsAllowed) {
  for (const auto& [online, mask] :
       {std::pair("0-3", "2-3,6-7"), std::pair("0", "1"), std::pair("1", "1"), std::pair("4-7", "4-7")}) {
    Tree tree;
    add_cores(tree, 8);
    add_cpuinfo(tree, static_cast<int>(parse_cpu_list(online, "test").size()));
    tree.file("/sys/devices/system/cpu/online", online);
    add_mask(tree, mask);
    const Machine machine = machine_in(tree);
    EXPECT_EQ(machine_class_of(machine.topology), machine_class_of(host(8))) << online;
    EXPECT_EQ(machine.topology.cpu_model, kModel);
    EXPECT_EQ(print(machine.allowed.cpus), mask);
    for (const Exclusion& exclusion : machine.allowed.exclusions)
      EXPECT_EQ(exclusion.reason, ExclusionReason::affinity_mask) << online;
    EXPECT_THAT(missing_parts(machine), Contains(HasSubstr("lxcfs?")));
  }
}

TEST(HwlocView, WithoutTopologyFoldersEachCpuIsACoreAndThatIsSaid) {
  Tree tree;  // gVisor: folders of CPUs, with nothing in them
  tree.file("/sys/devices/system/cpu/present", "0-3").file("/sys/devices/system/cpu/online", "0-3");
  tree.file("/sys/devices/system/cpu/possible", "0-3").file("/proc/meminfo", "MemTotal:       1048576 kB");
  for (const int cpu : {0, 1, 2, 3})
    tree.file(format_text("/sys/devices/system/cpu/cpu{}/crash_notes", cpu), "0");
  add_cpuinfo(tree, 4);
  add_mask(tree, "1-3");
  ::testing::internal::CaptureStderr();
  const Machine machine = machine_in(tree);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "") << "hwloc's own line";
  EXPECT_EQ(print(machine.topology.cpus), "0-3");
  EXPECT_EQ(machine.topology.cores.size(), 4u);
  EXPECT_EQ(machine.topology.packages, 1);
  EXPECT_EQ(machine.topology.cpu_model, kModel);
  EXPECT_EQ(print(machine.allowed.cpus), "1-3");
  EXPECT_THAT(missing_parts(machine),
              Contains(AllOf(HasSubstr("of CPUs 0-3 are unknown"), HasSubstr("each counts as a core"))));
}

TEST(HwlocView, CpusThatAMountedPartOfSysLacksAreNotOffline) {
  Tree tree;
  add_cores(tree, 4);
  std::filesystem::remove_all(tree.path() / "sys/devices/system/cpu/cpu2");
  std::filesystem::remove_all(tree.path() / "sys/devices/system/cpu/cpu3");
  add_mask(tree, "0-3");
  const Machine machine = machine_in(tree);
  EXPECT_EQ(machine.topology.cores.size(), 4u);
  EXPECT_EQ(print(machine.allowed.cpus), "0-3");
  EXPECT_THAT(machine.allowed.exclusions, IsEmpty());
  EXPECT_THAT(missing_parts(machine), Contains(HasSubstr("of CPUs 2-3 are unknown")));
}

/// Adds a machine of two packages of two cores of two PUs, as Linux numbers them: CPUs 0 and 4 are one core.
void add_smt_machine(Tree& tree) {
  tree.machine("0-7", "0").file("/sys/devices/system/cpu/possible", "0-7");
  tree.file("/sys/devices/system/node/online", "0").file("/sys/devices/system/node/node0/cpumap", "ff");
  tree.file("/sys/devices/system/node/node0/cpulist", "0-7");
  tree.file("/sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:       1048576 kB");
  for (int cpu = 0; cpu < 8; ++cpu) {
    const int core = cpu % 4;
    const int package = core / 2;
    const std::string folder = format_text("/sys/devices/system/cpu/cpu{}/", cpu);
    const std::string topology = folder + "topology/";
    tree.file(topology + "core_id", std::to_string(core));
    tree.file(topology + "physical_package_id", std::to_string(package));
    tree.file(topology + "thread_siblings", format_text("{:x}", 0x11 << core));
    tree.file(topology + "thread_siblings_list", format_text("{},{}", core, core + 4));
    tree.file(topology + "core_siblings", format_text("{:x}", 0x33 << (2 * package)));
    tree.file(topology + "core_siblings_list", package == 0 ? "0-1,4-5" : "2-3,6-7");
    const std::string l3 = folder + "cache/index3/";
    tree.file(l3 + "level", "3").file(l3 + "type", "Unified").file(l3 + "size", "1024K");
    tree.file(l3 + "shared_cpu_map", format_text("{:x}", 0x33 << (2 * package)));
  }
}

TEST(HwlocView, AMissingSiblingIsFoundThroughTheOther) {
  Tree whole;
  add_smt_machine(whole);
  for (const char* const cpu : {"cpu0", "cpu2", "cpu5"}) {
    Tree tree;
    add_smt_machine(tree);
    std::filesystem::remove_all(tree.path() / "sys/devices/system/cpu" / cpu);
    add_mask(tree, "0-7");
    const Machine machine = machine_in(tree);
    EXPECT_EQ(machine_class_of(machine.topology), machine_class_of(machine_in(whole).topology)) << cpu;
    EXPECT_EQ(machine.topology.cores.size(), 4u) << cpu;
    EXPECT_EQ(print(machine.allowed.cpus), "0-7");
    EXPECT_THAT(missing_parts(machine), testing::Each(Not(HasSubstr("unknown")))) << cpu;
  }
}

TEST(HwlocView, AMissingCoreLiesInThePackageWhoseCpusNameIt) {
  Tree tree;
  add_smt_machine(tree);
  for (const char* const cpu : {"cpu0", "cpu4"})
    std::filesystem::remove_all(tree.path() / "sys/devices/system/cpu" / cpu);
  add_mask(tree, "0-7");
  const Machine machine = machine_in(tree);
  EXPECT_EQ(machine.topology.packages, 2);
  EXPECT_EQ(machine.topology.cores.size(), 5u) << "CPUs 0 and 4 count as a core each";
  for (const Core& core : machine.topology.cores)
    EXPECT_EQ(core.package, core.cpus.intersects(parse_cpu_list("0-1,4-5", "test")) ? 0 : 1)
        << print(core.cpus);
  EXPECT_THAT(missing_parts(machine), Contains(HasSubstr("the cores of CPUs 0,4 are unknown")));
}

TEST(HwlocView, ATmpdirThatIsNotThereCostsNothing) {
  Tree tree;
  add_cores(tree, 4);
  std::filesystem::remove_all(tree.path() / "sys/devices/system/cpu/cpu3");
  const char* const before = std::getenv("TMPDIR");
  const std::string kept = before == nullptr ? "" : before;
  ::setenv("TMPDIR", "/nonexistent", 1);
  EXPECT_EQ(machine_in(tree).topology.cores.size(), 4u);
  if (before == nullptr)
    ::unsetenv("TMPDIR");
  else
    ::setenv("TMPDIR", kept.c_str(), 1);
}

TEST(HwlocView, ACpuThatOnlyAListNamesIsLeftOut) {
  Tree tree;
  add_cores(tree, 4);
  tree.file("/sys/devices/system/cpu/online", "0-65535");
  add_mask(tree, "0-3");
  EXPECT_EQ(print(machine_in(tree).topology.cpus), "0-3");
  EXPECT_EQ(print(machine_in(tree).allowed.cpus), "0-3");
}

TEST(HwlocView, MoreCpusThanHwlocCanTakeAreRefused) {
  Tree tree;
  tree.file("/sys/devices/system/cpu/present", "0-9999").file("/sys/devices/system/cpu/online", "0-9999");
  try {
    machine_in(tree);
    FAIL() << "hwloc invented a machine";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("10000 CPUs without a topology folder"));
  }
}

/// Adds a GPU near these CPUs, given as a mask too.
void add_gpu(Tree& tree, const std::string& cpus, const std::string& mask) {
  const std::string device = "/sys/bus/pci/devices/0000:3b:00.0/";
  tree.file(device + "class", "0x030200").file(device + "vendor", "0x10de").file(device + "device", "0x2330");
  tree.file(device + "local_cpus", mask).file(device + "local_cpulist", cpus);
}

TEST(HwlocView, AGpuNearCpusThatAreNotOnlineIsKnownAllTheSame) {
  Tree tree;
  add_cores(tree, 4);
  add_gpu(tree, "2-3", "c");
  tree.file("/sys/devices/system/cpu/online", "0-1");
  for (const int cpu : {2, 3}) {
    const std::string folder = format_text("/sys/devices/system/cpu/cpu{}/", cpu);
    std::filesystem::remove_all(tree.path() / (folder.substr(1) + "topology"));
    tree.file(folder + "online", "0");
  }
  const Topology topology = machine_in(tree).topology;
  ASSERT_EQ(topology.gpus.size(), 1u);
  EXPECT_EQ(print(topology.gpus[0].local_cpus), "0-1");
  EXPECT_THAT(topology.missing, testing::Each(Not(HasSubstr("no GPUs are known"))));
}

TEST(PciLocality, StrayBusesAreThoseNearNoCpuThatIsOnline) {
  Tree tree;
  add_gpu(tree, "2-3", "c");
  tree.file("/sys/bus/pci/devices/0000:5e:00.0/local_cpulist", "0-1");
  tree.file("/sys/bus/pci/devices/0001:af:00.1/local_cpulist", "3,64");
  tree.file("/sys/bus/pci/devices/0001:b0:00.0/local_cpulist", "");
  const PciLocality strays = stray_buses(tree.sysroot(), parse_cpu_list("0-1,33", "test"));
  EXPECT_EQ(strays.buses, "0000:3b, 0001:af");
  EXPECT_EQ(strays.variable, "0000:3b 00000002,00000003\n0001:af 00000002,00000003\n");
  EXPECT_EQ(stray_buses(tree.sysroot(), parse_cpu_list("0-3", "test")).variable, "");
}

TEST(HwlocView, GpusThatOnlyTheirDriverShowsAreReported) {
  Tree tree;
  add_cores(tree, 4);
  for (const char* const gpu : {"0000:3b:00.0", "0000:86:00.0"}) {
    tree.file(format_text("/proc/driver/nvidia/gpus/{}/information", gpu), "Device Minor: \t 1");
  }
  const Topology topology = machine_in(tree).topology;
  ASSERT_EQ(topology.gpus.size(), 2u);
  EXPECT_EQ(topology.gpus[1].pci_address, "0000:86:00.0");
  EXPECT_EQ(topology.gpus[1].minor, 1);
  EXPECT_TRUE(topology.gpus[1].usable);
  EXPECT_TRUE(topology.gpus[1].local_cpus.empty());
  EXPECT_THAT(topology.missing, ElementsAre(HasSubstr("the CPUs near the GPUs are unknown")));
}

}  // namespace
}  // namespace zf
