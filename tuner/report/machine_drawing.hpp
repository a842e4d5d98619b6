// Draws the machine as nested boxes: packages, NUMA nodes, L3 groups, cores and PUs. Each PU shows who runs
// on it. Pure.
#pragma once

#include <string>

#include "plan/plan.hpp"
#include "topology/topology.hpp"

namespace zf {

/// Returns the drawing as HTML. The hue of a PU stands for its rank and the pattern for its side. Both are
/// also written on the PU: T3 trains rank 3, O3 runs its optimizer, S3 does both. Boxes wrap to the width of
/// the page. Precondition: the topology has no CPU that the plan's machine lacks.
std::string machine_drawing(const Plan& plan, const Topology& topology);

/// Returns all that a plan tells about its machine: its PUs, each as a core of its own.
Topology bare_topology(const Plan& plan);

}  // namespace zf
