// Reads a Topology from what hwloc has loaded.
#pragma once

#include "topology/topology.hpp"
#include "topology/topology_source.hpp"

namespace zf {

/// Reads every PU, allowed or not. A sysroot and an XML file are read in a child process (hwloc_source.hpp),
/// so that a driver that hangs or a damaged file does not take this process with it. hwloc's environment
/// variables (HWLOC_XMLFILE, HWLOC_SYNTHETIC, HWLOC_FSROOT, …) never replace the machine.
/// Throws Error(usage) with the source and the reason if an XML file or a synthetic description cannot be
/// read (it never falls back to the real machine), or if the sysroot holds no machine.
Topology read_topology(const TopologySource& source);

}  // namespace zf
