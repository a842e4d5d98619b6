// Reads a Topology. topology_hwloc.cpp is the only file that knows hwloc.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "machine/topology.hpp"
#include "os/sysroot.hpp"

namespace zf {

struct TopologySource {
  std::string topology;  ///< empty: read `sysroot`; else an XML file or a synthetic description
  SysRoot sysroot;       ///< this machine, or a folder that holds the /proc and /sys of another one
  bool with_io = true;   ///< false: does not look for GPUs in `sysroot`, nor report them as missing
  /// I/O discovery can hang on a broken driver. After this long, GPUs are reported as missing and the rest of
  /// the machine is read without them.
  std::chrono::milliseconds io_deadline{3000};
};

/// Reads every PU, allowed or not. A `sysroot`, this machine's included, is read in a child process, so that
/// a driver that hangs or crashes does not take this process with it. hwloc's environment variables
/// (HWLOC_XMLFILE, HWLOC_SYNTHETIC, HWLOC_FSROOT, …) never replace the machine.
/// Throws Error(usage) with the source and the reason if an XML file or a synthetic description cannot be
/// read (it never falls back to the real machine), or if `sysroot` holds no machine.
Topology read_topology(const TopologySource& source);

/// Returns the CPUs that `hwloc-distrib RANKS` gives to each rank, of the allowed CPUs of this machine. Ranks
/// get the same CPUs if there are too few. Throws as read_topology() does. Precondition: `allowed` is not
/// empty.
std::vector<CpuSet> hwloc_distribution(const TopologySource& source, const CpuSet& allowed, int ranks);

}  // namespace zf
