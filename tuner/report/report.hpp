// Writes a plan as one HTML page: the decision, the evidence, the homes, the machine. Pure.
#pragma once

#include <string>

#include "machine/topology.hpp"
#include "plan/plan.hpp"

namespace zf {

/// Returns a whole HTML document. It contains its style, script and chart library, and its own policy forbids
/// it to load anything. It suits light and dark screens and A4 paper. It says what was not measured instead
/// of drawing it. `topology` is the machine to draw, of the plan's class. If it is null, the page draws the
/// plan's CPUs without nodes and caches, and says so.
std::string report_of(const Plan& plan, const Topology* topology);

}  // namespace zf
