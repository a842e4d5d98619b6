// Says for each rank which wishes its home fulfils, and what it lacks of the others. Pure.
#pragma once

#include <string>
#include <vector>

#include "machine/topology.hpp"
#include "plan/plan.hpp"

namespace zf {

/// What came of a rank's wishes. A wish is fulfilled if the rank could not have more of it if it were alone
/// on the allowed CPUs, with a home as large as it has; of fast cores and of cores, if it has at least an
/// even share.
struct HomeWishes {
  std::vector<std::string> won;  ///< the fulfilled ones, the most important first: "GPU's CPUs", "NUMA nodes"
  std::vector<std::string> cost;  ///< what the others lack: "1 NUMA node more than 8 cores need"
};

/// Returns an entry for each rank of the plan. Wishes of which nothing is known (no GPU, no L3 groups, one
/// kind of core) are in neither list. Precondition: the plan is for the topology's class.
std::vector<HomeWishes> wishes_of_homes(const Plan& plan, const Topology& topology);

}  // namespace zf
