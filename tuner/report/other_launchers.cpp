#include "report/other_launchers.hpp"

#include <utility>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "machine/hwloc_distribution.hpp"
#include "report/torchrun_homes.hpp"

namespace zf {
namespace {

/// Returns what DeepSpeed's `--bind_cores_to_rank` gives without a list of CPUs: equal runs of the CPUs from
/// 0 to the number of cores, without what is left over. GPUs do not count.
LauncherHomes homes_by_deepspeed(const Plan& plan, const Topology& topology) {
  LauncherHomes result{"deepspeed --bind_cores_to_rank"};
  const int each = static_cast<int>(topology.cores.size() / plan.ranks.size());
  if (each == 0) {
    result.refusal = format_text("{} are too few for {}", print_count(topology.cores.size(), "core"),
                                 print_count(plan.ranks.size(), "rank"));
    return result;
  }
  std::vector<CpuSet> homes;
  CpuSet all;
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    std::vector<Pu> cpus;
    for (int i = 0; i < each; ++i) cpus.push_back(Pu{static_cast<int>(rank) * each + i});
    homes.emplace_back(std::move(cpus));
    all |= homes.back();
  }
  const CpuSet outside = all - plan.allocation.cpus;
  if (outside.empty()) {
    result.homes = std::move(homes);
  } else {
    result.refusal =
        format_text("it would ask numactl for {}, which {} not allowed, and numactl would refuse",
                    print_cpus(outside), outside.size() == 1 ? "is" : "are");
  }
  return result;
}

}  // namespace

std::vector<LauncherHomes> homes_by_others(const Plan& plan, const Topology& topology,
                                           const std::optional<TopologySource>& source) {
  std::vector<LauncherHomes> others;
  if (source) {
    LauncherHomes& hwloc = others.emplace_back(LauncherHomes{"hwloc-distrib"});
    try {
      hwloc.homes = hwloc_distribution(*source, plan.allocation.cpus, static_cast<int>(plan.ranks.size()));
    } catch (const Error& error) {
      hwloc.refusal = error.what();
    }
  }
  for (LauncherHomes& mode : homes_by_torchrun(plan, topology)) others.push_back(std::move(mode));
  others.push_back(homes_by_deepspeed(plan, topology));
  return others;
}

}  // namespace zf
