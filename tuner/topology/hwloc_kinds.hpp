// Reads the CPU kinds that hwloc knows: the makes of cores.
#pragma once

#include <hwloc.h>

#include <vector>

#include "topology/topology.hpp"
#include "topology/topology_source.hpp"

namespace zf {

/// Reads the kinds, slow ones first, similar ones joined (join_similar_kinds()). Kinds that differ in nothing
/// but their clocks are one make: SST-BF, SST-TF and turbo deal clocks to cores of one make, anew for each
/// chip. In /proc and /sys they are one kind, because core_speeds.hpp reads these clocks. In an XML file,
/// where nothing else says them, they are one kind only if no clock differs by more than 10 %; on AMD, if
/// none differs so much from the next, because there the clocks of equal cores rise in small steps.
std::vector<CpuKind> read_cpu_kinds(hwloc_topology_t hwloc, const TopologySource& source);

}  // namespace zf
