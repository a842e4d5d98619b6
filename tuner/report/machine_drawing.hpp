// The machine as boxes within boxes: packages, NUMA nodes, L3 groups, cores, PUs, each PU with who runs on
// it. Pure.
#pragma once

#include <string>

#include "machine/topology.hpp"
#include "plan/plan.hpp"

namespace zf {

/// A rank is a hue, its side a pattern, and both are written on the PU as well: T3 trains rank 3, O3 runs its
/// optimizer, S3 does both. Boxes wrap, so that it is as wide as the page and as high as it must be.
/// Precondition: the topology has no CPU that the plan's machine lacks.
std::string machine_drawing(const Plan& plan, const Topology& topology);

/// A machine of which no more is known than what a plan says: its PUs, each as a core of its own.
Topology bare_topology(const Plan& plan);

}  // namespace zf
