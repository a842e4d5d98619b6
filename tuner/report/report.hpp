// A plan as one page for a browser: the decision, the evidence, the machine. Pure.
#pragma once

#include <string>

#include "machine/topology.hpp"
#include "plan/plan.hpp"

namespace zf {

/// A whole HTML document that needs nothing but itself: style, script and chart library are in it, and its
/// own policy forbids it to load anything. In light and dark, on a screen and on A4. What was not measured
/// is said, not drawn. `topology`: the machine to draw, of the plan's class; null where it is not at hand,
/// and then the plan's CPUs are drawn without nodes and caches, and the page says so.
std::string report_of(const Plan& plan, const Topology* topology);

}  // namespace zf
