// One machine as the tuner sees it: what exists, and what of it may be used.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/id_set.hpp"
#include "machine/topology.hpp"
#include "os/allowed.hpp"
#include "os/sysroot.hpp"

namespace zf {

/// --topology, --sysroot, --allowed and --mems, read.
struct MachineSource {
  std::string topology;                         ///< XML file or synthetic description; empty: `sysroot`
  SysRoot sysroot;                              ///< this machine, or another one's /proc and /sys
  std::optional<CpuSet> allowed;                ///< --allowed: use only these CPUs
  std::optional<NodeSet> mems;                  ///< --mems: use memory of only these nodes
  bool with_io = true;                          ///< see TopologySource
  std::chrono::milliseconds io_deadline{3000};  ///< see TopologySource; for the GPU driver's files as well
};

struct Machine {
  Topology topology;
  Allowed allowed;  ///< cpus ⊆ topology.cpus
};

/// Pure: what may be used of a machine that is nothing but a topology, where no cgroup and no affinity mask
/// can be asked. CPUs and nodes that the topology marks as disallowed (an XML made inside a cpuset) count as
/// excluded by that cpuset.
AllowedInputs allowed_inputs_of(const Topology& topology);

/// Throws Error(usage) for what cannot be read and for lists that name what the machine does not have,
/// Error(infeasible) when no CPU is left.
Machine read_machine(const MachineSource& source);

/// What could not be read, of the topology and of what is allowed.
std::vector<std::string> missing_parts(const Machine& machine);

}  // namespace zf
