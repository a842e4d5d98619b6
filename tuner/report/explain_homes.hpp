// Says for each rank why it has these cores: what counts, and how its home fares in it. Pure.
#pragma once

#include <string>
#include <vector>

#include "machine/topology.hpp"
#include "plan/plan.hpp"
#include "report/other_launchers.hpp"

namespace zf {

/// Returns a table with one line per rank, and the order in which the columns count when homes are cut
/// (homes/home_score.hpp). GPUs are those of the plan; a GPU without CPUs (zf-plan/1) has those of its node.
/// Precondition: the plan is for the topology's class.
std::string explain_homes(const Plan& plan, const Topology& topology);

/// Returns a table with the same points for what other launchers would have given to each rank, side by side
/// with the plan's homes, and one line for each launcher that gives no homes or gives CPUs to several ranks.
std::string explain_other_launchers(const Plan& plan, const Topology& topology,
                                    const std::vector<LauncherHomes>& others);

}  // namespace zf
