// Says for each rank why it has these cores: what counts, how its home fares in it, what it lacks. Pure.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.hpp"
#include "text/table.hpp"
#include "topology/topology.hpp"

namespace zf {

/// One table of the explanation, with a sentence before it.
struct HomesPart {
  std::string words;
  Table table;
};

/// Returns two tables: for each rank what its home has in each point, in the order in which the points count
/// (homes/home_points.hpp), under their sentences; and which wishes are met and what the others lack
/// (home_wishes.hpp), ranks of which the same is true in one line. Points of which nothing is known are left
/// out. GPUs are those of the plan; a GPU without CPUs has those of its node. Precondition: the
/// plan is for the topology's class.
std::vector<HomesPart> parts_of_homes(const Plan& plan, const Topology& topology);

/// Returns the same as text for a page of so many columns.
std::string explain_homes(const Plan& plan, const Topology& topology, std::size_t width = kUnlimitedWidth);

}  // namespace zf
