// Says for each rank why it has these cores: what counts, how its home fares in it, what it lacks, and what
// other launchers would have given. Pure.
#pragma once

#include <string>
#include <vector>

#include "machine/topology.hpp"
#include "plan/plan.hpp"
#include "report/other_launchers.hpp"
#include "text/table.hpp"

namespace zf {

/// One table of the explanation, with a sentence before it and sentences behind it.
struct HomesPart {
  std::string words;
  Table table;
  std::vector<std::string> remarks = {};
};

/// Returns three tables: for each rank, how its home fares in each point, in the order in which the points
/// count when homes are cut (homes/home_score.hpp); which wishes are met and what the others lack
/// (home_wishes.hpp), ranks of which the same is true in one line; and, side by side with the plan's homes,
/// what other launchers would have given, with a remark on each launcher that gives no homes or gives CPUs to
/// several ranks. The last one is missing if there are no others. GPUs are those of the plan; a GPU without
/// CPUs (zf-plan/1) has those of its node. Precondition: the plan is for the topology's class.
std::vector<HomesPart> parts_of_homes(const Plan& plan, const Topology& topology,
                                      const std::vector<LauncherHomes>& others);

/// Returns the same as text.
std::string explain_homes(const Plan& plan, const Topology& topology,
                          const std::vector<LauncherHomes>& others);

}  // namespace zf
