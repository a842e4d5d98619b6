// Loads an hwloc topology from any source, protected against a wrong source and a driver that hangs.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "topology/topology_source.hpp"

struct hwloc_topology;

namespace zf {

struct DestroyHwloc {
  void operator()(hwloc_topology* topology) const;
};
using Hwloc = std::unique_ptr<hwloc_topology, DestroyHwloc>;

/// Returns a loaded topology, and adds a sentence to `missing` for each thing that could not be read. A
/// `sysroot`, this machine's included, is read in a child process, so that a driver that hangs or crashes
/// does not take this process with it. hwloc's environment variables (HWLOC_XMLFILE, HWLOC_SYNTHETIC,
/// HWLOC_FSROOT, …) never replace the machine.
/// Throws Error(usage) with the source and the reason if an XML file or a synthetic description cannot be
/// read (it never falls back to the real machine), or if `sysroot` holds no machine.
Hwloc load_hwloc(const TopologySource& source, std::vector<std::string>& missing);

/// Calls `read` in a child process if the source is an XML file, because hwloc crashes on some damaged files,
/// or a large synthetic machine, because hwloc takes minutes for some. Returns the source that is to be read
/// in this process: of a file that is not in hwloc's own form, with its text in that form. Throws
/// Error(usage) if hwloc crashes or takes too long. Ignores an Error of `read`: it comes again in this
/// process.
TopologySource tried_in_child(const TopologySource& source,
                              const std::function<void(const TopologySource&)>& read);

}  // namespace zf
