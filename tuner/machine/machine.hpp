// One machine as the tuner sees it: what exists, and what may be used.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/id_set.hpp"
#include "os/allowed.hpp"
#include "os/environment.hpp"
#include "os/isolated.hpp"
#include "os/sysroot.hpp"
#include "topology/topology.hpp"

namespace zf {

/// The values of --topology, --sysroot, --allowed, --within and --mems.
struct MachineSource {
  std::string topology;                         ///< XML file or synthetic description; empty: read `sysroot`
  SysRoot sysroot;                              ///< this machine, or the /proc and /sys of another one
  std::optional<CpuSet> allowed;                ///< --allowed: use only these CPUs
  std::optional<CpuSet> within;                 ///< --within: as `allowed`, without making them the job's own
  std::optional<NodeSet> mems;                  ///< --mems: use memory of only these nodes
  bool own_cpus = false;                        ///< the CPUs are the job's own, as --allowed makes them
  bool keep_isolated = false;                   ///< --isolated: isolated CPUs are allowed like others
  bool with_speeds = true;                      ///< CPU kinds tell which cores are fast today
  bool with_io = true;                          ///< see TopologySource
  std::chrono::milliseconds io_deadline{3000};  ///< see TopologySource; also for the GPU driver's files
  /// GPUs that this process may not open are not usable (live_gpus.hpp).
  bool with_device_nodes = false;
};

struct Machine {
  Topology topology;
  Allowed allowed;              ///< cpus ⊆ topology.cpus
  IsolatedCpus isolated = {};   ///< as the kernel lists them; none if only the topology is known
  bool keeps_isolated = false;  ///< MachineSource::keep_isolated
};

/// Returns what may be used of a machine that is known only by its topology, so that no cgroup and no
/// affinity mask can be read. CPUs and nodes that the topology marks as disallowed (an XML file made inside a
/// cpuset) count as excluded by that cpuset. Pure.
AllowedInputs allowed_inputs_of(const Topology& topology);

/// Reads a machine. Isolated CPUs are not allowed, unless `source` keeps them or no others are allowed.
/// Throws Error(usage) if the source cannot be read or a list names what the machine does not have, and
/// Error(infeasible) if no CPU is left.
Machine read_machine(const MachineSource& source);

/// Reads a machine to plan by the GPUs that the environment names. Asks NVML for the GPUs of this machine
/// that nothing else identifies, which takes seconds. Leaves out GPUs that were not given to this container
/// (gpu_lists.hpp).
Machine read_machine_and_ask_nvml(const MachineSource& source,
                                  const Environment& environment = Environment::of_this_process());

/// Returns how many cores have a CPU that is allowed.
std::size_t allowed_cores(const Machine& machine);

/// Returns what could not be read of the topology and of what is allowed, one sentence each.
std::vector<std::string> missing_parts(const Machine& machine);

}  // namespace zf
