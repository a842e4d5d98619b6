// The homes of named machines as files for review: tests/machines/golden. ZF_REGENERATE=1 writes them again;
// review the difference.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <string_view>

#include "base/format.hpp"
#include "corpus.hpp"
#include "os/file.hpp"
#include "other_numbering.hpp"
#include "paths.hpp"
#include "simulate/simulated_machine.hpp"
#include "text/table.hpp"

namespace zf {
namespace {

struct GoldenCase {
  const char* name;
  const char* machine;  ///< a file in configs/machines (.json), tests/machines, or ZF_MACHINES_DIR (others/…)
  int ranks;
  const char* allowed = "";  ///< "": everything
  double cpu_quota = 0;      ///< 0: none
};

std::ostream& operator<<(std::ostream& out, const GoldenCase& golden) { return out << golden.name; }

const GoldenCase kGoldens[] = {
    {"dgx-a100-nps1-8-ranks", "epyc-7742-8gpu-nps1.json", 8},
    {"dgx-a100-nps4-8-ranks", "epyc-7742-8gpu-nps4.json", 8},
    {"dgx-a100-nps4-2-ranks", "epyc-7742-8gpu-nps4.json", 2},
    {"xeon-2x16-2-ranks", "xeon-2x16-2gpu.json", 2},
    {"desktop-4p-4e-1-rank", "desktop-4p-4e.json", 1},
    {"qemu-2ht-2-ranks", "qemu-2ht.xml", 2},
    {"qemu-2ht-offline-2-ranks", "qemu-2ht-offline2,5.xml", 2},
    {"qemu-cpuless-2-ranks", "qemu-cpuless.xml", 2},
    {"qemu-memonly-2-ranks", "qemu-memonly.xml", 2},
    {"qemu-nomem-2-ranks", "qemu-nomem.xml", 2},
    {"qemu-8n-3-ranks", "qemu-8n.xml", 3},
    {"qemu-8n-quota-2-ranks", "qemu-8n.xml", 2, "", 6},
    {"qemu-cpuset-1-rank", "qemu-2n-cgroup2-cpuset-0,4-5-mems0.xml", 1},
    {"mi250x-8-ranks", "mi250x.xml", 8},
    {"mi250x-crossed-8-ranks", "mi250x-crossed.xml", 8},
    {"mi250x-8-ranks-a-core-of-each-node-reserved", "mi250x.xml", 8, "1-15,17-31,33-47,49-63"},
    {"mi250x-3-ranks", "mi250x.xml", 3},
    {"slow-first-2-ranks", "slow-first.xml", 2},
    {"bmc-vga-3-ranks", "bmc-vga.xml", 3},
    {"cuda-order-2-ranks", "cuda-order.xml", 2},
    {"qat-2-ranks", "qat.xml", 2},
    {"npu-1-rank", "npu.xml", 1},
    {"amd-ranked-2-ranks", "amd-ranked.xml", 2},
    {"nps4-empty-node-8-ranks", "nps4-empty-node.xml", 8},
    {"persistent-memory-2-ranks", "persistent-memory.xml", 2},
    {"persistent-memory-1-rank", "persistent-memory.xml", 1},
    {"strix-point-2-ranks", "strix-point.xml", 2},
    {"lunar-lake-2-ranks", "lunar-lake.xml", 2},
    {"gpus-of-a-package-2-ranks", "gpus-of-a-package.xml", 2, "4-31"},
    {"one-gpu-4-ranks", "one-gpu.xml", 4, "0-13"},
    {"six-ranks-four-gpus", "six-ranks-four-gpus.xml", 6},
    {"tioga-5-ranks", "others/eas-tioga.xml", 5},
    {"dgx-spark-2-ranks", "others/converted/nvidia-dgx-gb10.xml", 2},
    {"es1000-3-ranks", "others/24em64t-2n6c2t-pci.xml", 3},
    {"two-packages-in-one-node-3-ranks", "others/converted/AMD-19h-Zen3-2xEpyc-7763.xml", 3},
    {"pascal-2-ranks", "others/cts1-pascal.xml", 2},
    {"quartz-smt-off-4-ranks", "others/cts1-quartz-smt1.xml", 4},
    {"corona-4-ranks", "others/epyc-corona.xml", 4},
    {"g4dn-8-ranks", "others/g4dnmetal.xml", 8},
    {"g4dn-4-ranks-in-half", "others/g4dnmetal.xml", 4, "0-11,48-59"},
    {"lassen-4-ranks", "others/coral-lassen.xml", 4},
    {"knl-snc4-4-ranks", "others/knl-snc4-flat-hwloc1.xml", 4},
    {"hybrid-2-ranks", "others/converted/20em64t-hybrid-1p6c2t+2ca4co1t.xml", 2},
    {"sparse-node-ids-4-ranks", "others/converted/48amd64-4pa2n6c-sparse.xml", 4},
    {"genoa-8-ranks", "others/converted/AMD-19h-Zen4-2xEpyc-9654.xml", 8},
    {"memory-tiers-2-ranks", "others/converted/fakeheteromemtiers.xml", 2},
    {"snc2-odd-even-4-ranks", "others/converted/memorysidecaches.xml", 4},
};

constexpr std::string_view kOthers = "others/";

/// Returns a topology without cores if the machine is not available.
Topology topology_named(const std::string& name) {
  if (name.ends_with(".json")) {
    return load_simulated_machine(std::string(kSourceDir) + "/configs/machines/" + name).topology;
  }
  if (!name.starts_with(kOthers)) return topology_of(own_machine(name));
  const std::string path = foreign_machine(name.substr(kOthers.size()));
  return path.empty() ? Topology() : topology_of(path);
}

/// Returns "12 of node 0, 4 of node 1".
std::string nodes_in_words(const Home& home) {
  std::map<int, int> counts;
  for (const HomeCore& core : home.cores) ++counts[core.node ? core.node->os_index : -1];
  std::string text;
  for (const auto& [node, count] : counts) {
    text += format_text("{}{} of node {}", text.empty() ? "" : ", ", count, node);
  }
  return text;
}

/// Returns "4 whole, 1 part": how many L3 groups a home has with all of their allowed CPUs, and with only
/// some.
std::string l3_in_words(const Home& home, const Topology& topology, const Allowed& allowed) {
  int whole = 0;
  int part = 0;
  for (const L3Group& group : topology.l3_groups) {
    const CpuSet of_group = group.cpus & allowed.cpus;
    if (!of_group.intersects(home.cpus())) continue;
    ++(home.cpus().contains(of_group) ? whole : part);
  }
  return format_text("{} whole, {} part", whole, part);
}

/// Returns "3, 4": a home's cores of each CPU kind, slow ones first; "-" if all are alike.
std::string kinds_in_words(const Home& home, const Topology& topology) {
  std::string text;
  for (int kind = 0; topology.cpu_kinds.size() > 1 && kind < static_cast<int>(topology.cpu_kinds.size());
       ++kind) {
    const auto count = std::count_if(home.cores.begin(), home.cores.end(),
                                     [&](const HomeCore& core) { return core.kind == kind; });
    text += format_text("{}{}", text.empty() ? "" : ", ", count);
  }
  return text.empty() ? "-" : text;
}

Machine machine_of(const GoldenCase& golden, const Topology& topology) {
  Machine machine{topology, {}};
  AllowedInputs inputs = allowed_inputs_of(topology);
  if (*golden.allowed != '\0') inputs.list = parse_cpu_list(golden.allowed, "test");
  machine.allowed = allowed_from(inputs);
  if (golden.cpu_quota > 0) {
    machine.allowed.cpu_quota = golden.cpu_quota;
    machine.allowed.cpu_quota_path = "cpu.max";
  }
  return machine;
}

std::string homes_in_words(const GoldenCase& golden, const Topology& topology) {
  using enum Table::Align;
  const Machine machine = machine_of(golden, topology);
  const RankHomes ranks = rank_homes(machine, rank_gpus({}, topology, golden.ranks));

  Table table({{"rank"},
               {"GPU", left},
               {"CPUs", left},
               {"cores", left},
               {"by kind", left},
               {"L3 groups", left},
               {"memory", left}});
  for (std::size_t rank = 0; rank < ranks.homes.size(); ++rank) {
    const Home& home = ranks.homes[rank];
    table.add({std::to_string(rank),
               !home.gpu ? "-"
               : !home.gpu->node
                   ? home.gpu->pci_address
                   : format_text("{}, node {}", home.gpu->pci_address, home.gpu->node->os_index),
               print(home.cpus()), nodes_in_words(home), kinds_in_words(home, topology),
               l3_in_words(home, topology, machine.allowed), print(home.mems)});
  }
  std::string text =
      format_text("{}\npackages {}, nodes {}, cores {}, PUs {}; ranks {} in CPUs {}\n\n{}", golden.machine,
                  topology.packages, topology.nodes.size(), topology.cores.size(), topology.cpus.size(),
                  golden.ranks, print(machine.allowed.cpus), table.print());
  for (const std::string& note : ranks.notes) text += "\nNote: " + note;
  return text + (ranks.notes.empty() ? "" : "\n");
}

class GoldenHomes : public testing::TestWithParam<GoldenCase> {};

TEST_P(GoldenHomes, AsReviewed) {
  const GoldenCase& golden = GetParam();
  const Topology topology = topology_named(golden.machine);
  if (topology.cores.empty()) GTEST_SKIP() << why_missing(std::string(golden.machine).substr(kOthers.size()));
  const std::string path = std::string(kSourceDir) + "/tests/machines/golden/" + golden.name + ".txt";
  const std::string text = homes_in_words(golden, topology);
  if (std::getenv("ZF_REGENERATE") != nullptr) std::ofstream(path) << text;
  EXPECT_EQ(read_text_file(path), text) << "if that is meant, run again with ZF_REGENERATE=1";
}

TEST_P(GoldenHomes, InOtherNumberings) {
  const GoldenCase& golden = GetParam();
  const Topology topology = topology_named(golden.machine);
  if (topology.cores.empty()) GTEST_SKIP() << why_missing(std::string(golden.machine).substr(kOthers.size()));
  expect_homes_in_other_numberings(machine_of(golden, topology), golden.ranks);
}

INSTANTIATE_TEST_SUITE_P(Machines, GoldenHomes, testing::ValuesIn(kGoldens),
                         [](const testing::TestParamInfo<GoldenCase>& golden) {
                           std::string name = golden.param.name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace zf
