#include "report/explain_homes.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

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

/// Returns the cells from "near its GPU" to "CPUs" for a home of a rank of the plan.
std::vector<std::string> cells_of(const CpuSet& home, const RankBinding& rank, const std::vector<Gpu>& gpus,
                                  const Topology& topology) {
  const auto gpu = std::find_if(gpus.begin(), gpus.end(), [&](const Gpu& one) {
    return rank.gpu && one.pci_address == rank.gpu->pci_address;
  });
  const bool known = gpu != gpus.end() && !gpu->local_cpus.empty();
  const HomeFacts facts = facts_of(home, known ? &*gpu : nullptr, topology);
  return {known ? std::to_string(facts.near_gpu) : "-",
          known ? std::to_string(facts.in_package_of_gpu) : "-",
          std::to_string(facts.nodes.size()),
          std::to_string(facts.packages.size()),
          facts.l3_groups.empty() ? "-" : std::to_string(facts.l3_groups.size()),
          topology.cpu_kinds.size() > 1 ? std::to_string(facts.fast_cores) : "-",
          std::to_string(facts.cores),
          print(home)};
}

/// Returns a table with the columns of cells_of() behind these.
Table table_with(std::vector<Table::Column> columns) {
  for (const char* name :
       {"near its GPU", "in its package", "NUMA nodes", "packages", "L3 groups", "fast cores", "cores"})
    columns.push_back({name});
  columns.push_back({"CPUs", Table::Align::left});
  return Table(std::move(columns));
}

void add_row(Table& table, std::vector<std::string> first, std::vector<std::string> cells) {
  first.insert(first.end(), cells.begin(), cells.end());
  table.add(std::move(first));
}

bool overlap(const std::vector<CpuSet>& homes) {
  CpuSet taken;
  for (const CpuSet& home : homes) {
    if (home.intersects(taken)) return true;
    taken |= home;
  }
  return false;
}

}  // namespace

std::string explain_homes(const Plan& plan, const Topology& topology) {
  const std::vector<Gpu> gpus = planned_gpus(plan, topology);
  Table table = table_with({{"rank"}});
  for (const RankBinding& rank : plan.ranks)
    add_row(table, {std::to_string(rank.rank)}, cells_of(rank.home.cpus, rank, gpus, topology));
  return fmt::format(
      "Homes. The columns count from left to right, in each the worst rank first: most\n"
      "cores near the GPU, then in its package; fewest NUMA nodes, packages and L3\n"
      "groups; most fast cores; equal sizes.\n\n{}",
      table.print());
}

std::string explain_other_launchers(const Plan& plan, const Topology& topology,
                                    const std::vector<LauncherHomes>& others) {
  const std::vector<Gpu> gpus = planned_gpus(plan, topology);
  Table table = table_with({{"rank"}, {"by", Table::Align::left}});
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    const RankBinding& own = plan.ranks[rank];
    add_row(table, {std::to_string(rank), "this plan"}, cells_of(own.home.cpus, own, gpus, topology));
    for (const LauncherHomes& other : others) {
      if (other.homes.empty()) continue;
      add_row(table, {"", other.launcher}, cells_of(other.homes[rank], own, gpus, topology));
    }
  }
  std::string text = "What other launchers would have given to the same ranks.\n\n" + table.print();
  for (const LauncherHomes& other : others) {
    if (other.homes.empty()) text += fmt::format("\n{} gives no homes: {}.\n", other.launcher, other.refusal);
    if (overlap(other.homes)) text += fmt::format("\n{} gives some CPUs to several ranks.\n", other.launcher);
  }
  return text;
}

}  // namespace zf
