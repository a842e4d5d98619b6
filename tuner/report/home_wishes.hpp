// Says for each rank which wishes its home meets, and what it lacks of the others. Pure.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.hpp"
#include "topology/topology.hpp"

namespace zf {

/// The result of a rank's wishes: the points of homes/home_points.hpp. A wish is met
/// if the rank, alone on the allowed CPUs and with a home as large as it has, could have no more of it. The
/// wishes for fast cores and for equal sizes are met if the rank has at least an even share.
struct HomeWishes {
  std::vector<std::string> met;  ///< those that are met, the most important first: "GPU's CPUs", "NUMA nodes"
  std::vector<std::string> lacks;  ///< what the others lack: "1 NUMA node more than 8 cores need"
};

/// Returns an entry for each rank of the plan. Wishes of which nothing is known (no GPU, no L3 groups, one
/// kind of core) are in neither list. Precondition: the plan is for the topology's class.
std::vector<HomeWishes> wishes_of_homes(const Plan& plan, const Topology& topology);

}  // namespace zf
