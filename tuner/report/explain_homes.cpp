#include "report/explain_homes.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "base/cpu_list.hpp"
#include "machine/ranks.hpp"
#include "text/table.hpp"

namespace zf {
namespace {

/// What a home has of each point that counts.
struct HomeFacts {
  int cores = 0;
  int fast_cores = 0;  ///< of the fastest kind
  int near_gpu = 0;
  int in_package_of_gpu = 0;
  std::set<int> nodes;
  std::set<int> packages;
  std::set<int> l3_groups;
};

HomeFacts facts_of(const CpuSet& home, const Gpu* gpu, const Topology& topology) {
  HomeFacts facts;
  std::set<int> gpu_packages;
  for (const Core& core : topology.cores) {
    if (gpu != nullptr && gpu->local_cpus.intersects(core.cpus)) gpu_packages.insert(core.package);
  }
  const int fastest = static_cast<int>(topology.cpu_kinds.size()) - 1;
  for (const Core& core : topology.cores) {
    if (!core.cpus.intersects(home)) continue;
    ++facts.cores;
    facts.fast_cores += core.kind == fastest;
    facts.near_gpu += gpu != nullptr && gpu->local_cpus.intersects(core.cpus);
    facts.in_package_of_gpu += gpu_packages.contains(core.package);
    if (core.node) facts.nodes.insert(core.node->os_index);
    facts.packages.insert(core.package);
    if (core.l3 >= 0) facts.l3_groups.insert(core.l3);
  }
  return facts;
}

}  // namespace

std::string explain_homes(const Plan& plan, const Topology& topology) {
  const std::vector<Gpu> gpus = planned_gpus(plan, topology);
  const bool kinds = topology.cpu_kinds.size() > 1;
  Table table({{"rank"},
               {"near its GPU"},
               {"in its package"},
               {"NUMA nodes"},
               {"packages"},
               {"L3 groups"},
               {"fast cores"},
               {"cores"},
               {"CPUs", Table::Align::left}});
  for (const RankBinding& rank : plan.ranks) {
    const auto gpu = std::find_if(gpus.begin(), gpus.end(), [&](const Gpu& one) {
      return rank.gpu && one.pci_address == rank.gpu->pci_address;
    });
    const bool known = gpu != gpus.end() && !gpu->local_cpus.empty();
    const HomeFacts facts = facts_of(rank.home.cpus, known ? &*gpu : nullptr, topology);
    table.add({std::to_string(rank.rank), known ? std::to_string(facts.near_gpu) : "-",
               known ? std::to_string(facts.in_package_of_gpu) : "-", std::to_string(facts.nodes.size()),
               std::to_string(facts.packages.size()),
               facts.l3_groups.empty() ? "-" : std::to_string(facts.l3_groups.size()),
               kinds ? std::to_string(facts.fast_cores) : "-", std::to_string(facts.cores),
               print(rank.home.cpus)});
  }
  return fmt::format(
      "Homes. The columns count from left to right, in each the worst rank first: most\n"
      "cores near the GPU, then in its package; fewest NUMA nodes, packages and L3\n"
      "groups; most fast cores; equal sizes.\n\n{}",
      table.print());
}

}  // namespace zf
