// Asks hwloc which CPUs hwloc-distrib would give to each rank.
#pragma once

#include <vector>

#include "base/id_set.hpp"
#include "machine/topology_source.hpp"

namespace zf {

/// Returns the CPUs that `hwloc-distrib RANKS` gives to each rank, of the allowed CPUs of this machine. Ranks
/// get the same CPUs if there are too few. Throws as read_topology() does. Precondition: `allowed` is not
/// empty.
std::vector<CpuSet> hwloc_distribution(const TopologySource& source, const CpuSet& allowed, int ranks);

}  // namespace zf
