// Writes a plan as one HTML page: the decision first, then the machine, the evidence and the details. Pure.
#pragma once

#include <string>

#include "plan/plan.hpp"
#include "topology/topology.hpp"

namespace zf {

/// Returns a whole HTML document. It contains its style, has no script, and its own policy forbids it to load
/// anything. It suits narrow and wide, light and dark screens, and A4 paper. It says what was not measured
/// instead of drawing it. `topology` is the machine to draw, of the plan's class. If it is null, the page
/// draws the plan's CPUs without nodes and caches, and says so. `plan_file` is the plan's file, which
/// the commands to type name.
std::string report_of(const Plan& plan, const Topology* topology, const std::string& plan_file = "plan.json");

}  // namespace zf
