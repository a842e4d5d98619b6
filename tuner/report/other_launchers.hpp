// Which CPUs other launchers would give to the ranks of a plan.
#pragma once

#include <optional>
#include <vector>

#include "machine/topology.hpp"
#include "machine/topology_source.hpp"
#include "plan/plan.hpp"
#include "report/launcher_homes.hpp"

namespace zf {

/// Returns what DeepSpeed's `--bind_cores_to_rank` gives without a list of CPUs: equal runs of the CPUs from
/// 0 to the number of cores, without what is left over. GPUs do not count. Pure.
LauncherHomes homes_by_deepspeed(const Plan& plan, const Topology& topology);

/// Returns what hwloc-distrib, torchrun and DeepSpeed give. hwloc reads the machine from `source`; without
/// one (a simulated machine) hwloc-distrib is left out.
std::vector<LauncherHomes> homes_by_others(const Plan& plan, const Topology& topology,
                                           const std::optional<TopologySource>& source);

}  // namespace zf
