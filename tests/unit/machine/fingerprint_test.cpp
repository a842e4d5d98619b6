#include "machine/fingerprint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "../topology/machines.hpp"
#include "../topology/make_topology.hpp"
#include "base/format.hpp"
#include "os/file.hpp"
#include "sysroot_machine.hpp"

namespace zf {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Fingerprint, IsOfTheClassAndNotOfWhatVariesBetweenItsNodes) {
  const MachineClass one = machine_class_of(slurm_sparse_machine());
  Topology other = slurm_sparse_machine();
  other.nodes[0].memory_bytes -= 12345;  // firmware keeps a varying bit
  other.source = "elsewhere";
  other.gpus.push_back({"0000:3b:00.0", "a GPU", {}, std::nullopt});
  EXPECT_EQ(machine_class_of(other), one);
  EXPECT_EQ(one.fingerprint.size(), 16U);
}

TEST(Fingerprint, SeesSmtAndCachesAndNodes) {
  const auto print_of = [](const MachineShape& shape) {
    return machine_class_of(make_topology(shape)).fingerprint;
  };
  const MachineShape base{
      .packages = 2, .nodes_per_package = 1, .l3_per_node = 2, .cores_per_l3 = 4, .pus_per_core = 2};
  MachineShape smt_off = base;
  smt_off.pus_per_core = 1;
  MachineShape nps2 = base;
  nps2.nodes_per_package = 2;
  nps2.l3_per_node = 1;
  MachineShape interleaved = base;
  interleaved.numbering = Numbering::interleaved;
  for (const MachineShape& other : {smt_off, nps2, interleaved}) EXPECT_NE(print_of(base), print_of(other));
}

TEST(Fingerprint, OfGpusIsTheirPlacesInPciOrder) {
  const auto places = [](std::initializer_list<int> nodes) {
    Topology topology = slurm_sparse_machine();
    topology.pci_gpus.emplace();
    for (const int node : nodes) {
      Gpu& gpu = topology.pci_gpus->emplace_back();
      gpu.vendor_id = 0x10de;
      gpu.node = Node{node};
    }
    return *gpu_places_of(topology);
  };
  EXPECT_EQ(gpu_places_of(slurm_sparse_machine()), std::nullopt) << "PCI was not read";
  EXPECT_EQ(in_words(places({})), "no GPU");
  EXPECT_EQ(in_words(places({0, 0, 1})), "2 GPUs (10de:0000) on node 0, 1 GPU (10de:0000) on node 1");
  const std::set<std::string> all{places({}).fingerprint, places({0, 0, 1, 1}).fingerprint,
                                  places({0, 1, 0, 1}).fingerprint, places({0, 0, 0, 0}).fingerprint};
  EXPECT_EQ(all.size(), 4U);
}

TEST(Fingerprint, OfGpusIsTheSameWithHwlocAndByPciAlone) {
  Tree tree;
  add_cores(tree, 4);
  for (const auto& [address, device] : std::map<std::string, std::string>{
           {"0000:10:00.0", "0x2330"}, {"0000:20:00.0", "0x2330"}, {"0000:30:00.0", "0x1592"}}) {
    const std::string folder = format_text("/sys/bus/pci/devices/{}/", address);
    const bool gpu = device == "0x2330";
    tree.file(folder + "class", gpu ? "0x030200" : "0x020000")
        .file(folder + "vendor", gpu ? "0x10de" : "0x8086");
    tree.file(folder + "device", device)
        .file(folder + "local_cpus", "c")
        .file(folder + "local_cpulist", "2-3");
  }
  const Topology by_hwloc = read_topology({"", tree.sysroot()});
  const Topology by_pci = machine_in(tree).topology;
  EXPECT_EQ(in_words(*gpu_places_of(by_pci)), "2 GPUs (10de:2330) on node 0");
  EXPECT_EQ(by_pci.pci_gpus->at(1).local_cpus, parse_cpu_list("2-3", "test"));
  if (by_hwloc.gpus.empty()) GTEST_SKIP() << "this hwloc finds no PCI devices in a folder";
  EXPECT_EQ(gpu_places_of(by_hwloc), gpu_places_of(by_pci));
}

TEST(Fingerprint, DoesNotDependOnTheGpuDriver) {
  const Topology without = slurm_sparse_machine();
  Topology loaded = without;  // Grace Hopper: node 2 is the GPU's memory, 3 is for MIG
  loaded.nodes.push_back({Node{2}, 96ULL << 30, {}, "GPUMemory", without.nodes[0].cpus});
  loaded.nodes.push_back({Node{3}, 0, {}, ""});
  EXPECT_EQ(machine_class_of(loaded), machine_class_of(without));
  Topology unloaded = loaded;
  unloaded.nodes[2].memory_bytes = 0;
  unloaded.nodes[2].subtype = "";
  EXPECT_EQ(machine_class_of(unloaded), machine_class_of(without));
}

TEST(Fingerprint, SeesMemoryThatIsNoGpus) {
  Topology flat = slurm_sparse_machine();
  flat.nodes.push_back({Node{2}, 64ULL << 30, {}, "HBM"});
  EXPECT_NE(machine_class_of(flat).fingerprint, machine_class_of(slurm_sparse_machine()).fingerprint);
}

TEST(Fingerprint, DifferencesAreNamedOneByOne) {
  const MachineClass smt = machine_class_of(make_topology({.cores_per_l3 = 4, .pus_per_core = 2}));
  const MachineClass no_smt = machine_class_of(make_topology({.cores_per_l3 = 4, .pus_per_core = 1}));
  EXPECT_THAT(class_differences(smt, smt), IsEmpty());
  EXPECT_THAT(class_differences(smt, no_smt), Contains("PUs: 8 in the plan, 4 here (SMT is off here)"));
  EXPECT_THAT(class_differences(smt, no_smt), Contains("CPUs: 0-7 in the plan, 0-3 here"));
}

TEST(Fingerprint, ALayoutThatOnlyTheDigestSeesIsSaidAsSuch) {
  const MachineClass one = machine_class_of(make_topology({.l3_per_node = 1, .cores_per_l3 = 8}));
  const MachineClass other = machine_class_of(make_topology({.l3_per_node = 2, .cores_per_l3 = 4}));
  EXPECT_THAT(class_differences(one, other), ElementsAre(HasSubstr("layout")));
}

TEST(Fingerprint, AnAllocationIsTiedToItsMachine) {
  const Topology topology = slurm_sparse_machine();
  const MachineClass machine = machine_class_of(topology);
  MachineClass other = machine;
  other.fingerprint = digest("another");
  const Allowed allowed = make_allowed(topology, kSlurmSparseMask);
  EXPECT_NE(allocation_of(allowed, machine).fingerprint, allocation_of(allowed, other).fingerprint);
  EXPECT_NE(allocation_of(allowed, machine).fingerprint,
            allocation_of(make_allowed(topology, "0-3"), machine).fingerprint);
}

TEST(Fingerprint, TheDigestIsFnv1a) {
  // The published test vectors of FNV-1a, 64 bits.
  EXPECT_EQ(digest(""), "cbf29ce484222325");
  EXPECT_EQ(digest("a"), "af63dc4c8601ec8c");
  EXPECT_EQ(digest("foobar"), "85944171f73967e8");
}

/// Returns a line with the fingerprint and the name of each machine in tests/machines.
std::string fingerprints_of_our_machines() {
  std::set<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(own_machine("")))
    if (entry.path().extension() == ".xml") files.insert(entry.path());
  std::string lines;
  for (const auto& file : files) {
    lines +=
        format_text("{}  {}\n", machine_class_of(topology_of(file)).fingerprint, file.filename().string());
  }
  return lines;
}

TEST(Fingerprint, OfOurMachinesStaysThatOfPlansThatWereMade) {
  const std::string path = own_machine("golden/fingerprints.txt");
  const std::string lines = fingerprints_of_our_machines();
  if (std::getenv("ZF_REGENERATE") != nullptr) std::ofstream(path) << lines;
  EXPECT_EQ(read_text_file(path), lines);
}

}  // namespace
}  // namespace zf
