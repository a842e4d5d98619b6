// Which CPUs other launchers would give to the ranks of a plan.
#pragma once

#include <optional>
#include <vector>

#include "machine/topology.hpp"
#include "machine/topology_source.hpp"
#include "plan/plan.hpp"
#include "report/launcher_homes.hpp"

namespace zf {

/// Returns what hwloc-distrib, torchrun and DeepSpeed give. hwloc reads the machine from `source`; without
/// one (a simulated machine) hwloc-distrib is left out.
std::vector<LauncherHomes> homes_by_others(const Plan& plan, const Topology& topology,
                                           const std::optional<TopologySource>& source);

}  // namespace zf
