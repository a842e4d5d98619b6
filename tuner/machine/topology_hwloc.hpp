// Where a Topology comes from. topology_hwloc.cpp is the only file that knows hwloc.
#pragma once

#include <chrono>
#include <string>

#include "machine/topology.hpp"
#include "os/sysroot.hpp"

namespace zf {

struct TopologySource {
  std::string topology;  ///< empty: `sysroot`; else an XML file or a synthetic description
  SysRoot sysroot;       ///< this machine, or a folder that holds another one's /proc and /sys
  bool with_io = true;   ///< false: of `sysroot`, GPUs are not looked for, and not said to be missing
  /// I/O discovery can hang on a broken driver: after this long, GPUs are reported missing and the rest goes
  /// on.
  std::chrono::milliseconds io_deadline{3000};
};

/// Every PU, allowed or not. A machine with a `sysroot` (this one included) is read in a child process, so
/// that neither a driver that hangs nor one that crashes takes us with it; hwloc's environment variables
/// (HWLOC_XMLFILE, HWLOC_SYNTHETIC, HWLOC_FSROOT, …) never decide which machine that is.
/// Throws Error(usage) with the source and hwloc's complaint when an XML file or a
/// synthetic description cannot be read (never falls back to the real machine), or when `sysroot` holds no
/// machine.
Topology read_topology(const TopologySource& source);

}  // namespace zf
