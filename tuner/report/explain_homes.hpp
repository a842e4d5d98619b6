// Says for each rank why it has these cores: what counts, how its home fares in it, what it lacks. Pure.
//
// GPUs are those of the plan; a GPU without CPUs has those of its node. Precondition of all: the plan is for
// the topology's class.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.hpp"
#include "text/table.hpp"
#include "topology/topology.hpp"

namespace zf {

/// The result of a rank's wishes: the points of homes/home_points.hpp. A wish is met if the rank, alone on
/// the allowed CPUs and with a home as large as it has, could have no more of it. The wishes for fast cores
/// and for equal sizes are met if the rank has at least an even share.
struct HomeWishes {
  std::vector<std::string> met;  ///< those that are met, the most important first: "GPU's CPUs", "NUMA nodes"
  std::vector<std::string> lacks;  ///< what the others lack: "1 NUMA node more than 8 cores need"
};

/// Returns an entry for each rank of the plan. Wishes that cannot count (no GPU, no L3 groups, one kind of
/// core) are in neither list.
std::vector<HomeWishes> wishes_of_homes(const Plan& plan, const Topology& topology);

/// One table of the explanation, with a sentence before it.
struct HomesPart {
  std::string words;
  Table table;
};

/// Returns two tables. The first says for each rank what its home has in each point. The points stand under
/// their sentences, in the order of homes/home_points.hpp; points that cannot count are left out. The second
/// says which wishes are met, and what the others lack. Ranks with the same answer share a line.
std::vector<HomesPart> parts_of_homes(const Plan& plan, const Topology& topology);

/// Returns the same as text for a page of so many columns.
std::string explain_homes(const Plan& plan, const Topology& topology, std::size_t width = kUnlimitedWidth);

}  // namespace zf
