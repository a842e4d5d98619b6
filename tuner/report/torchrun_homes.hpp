// Which CPUs torchrun would give to the ranks of a plan. Pure.
#pragma once

#include <vector>

#include "machine/topology.hpp"
#include "plan/plan.hpp"
#include "report/launcher_homes.hpp"

namespace zf {

/// Returns what `torchrun --numa-binding=MODE` gives, for each of its modes. Modes that give the same are one
/// entry: "torchrun --numa-binding=node|socket". Each starts from the allowed CPUs of the NUMA node of the
/// rank's GPU:
/// - node: all of them; ranks with GPUs on one node share them. socket: those of all nodes of its package.
/// - exclusive: an even share of their cores for each GPU of that node, also for GPUs without a rank; the
///   ranks' GPUs come first.
/// - core-complex: one L3 group, the groups with most allowed CPUs first, and in turn if there are too few.
std::vector<LauncherHomes> homes_by_torchrun(const Plan& plan, const Topology& topology);

}  // namespace zf
