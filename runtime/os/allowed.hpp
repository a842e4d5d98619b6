// What this process may really use: affinity mask, cgroup cpuset and online CPUs, all at once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/id_set.hpp"
#include "os/cgroup.hpp"
#include "os/sysroot.hpp"

namespace zf {

/// Why a CPU that the machine has cannot be used here. The first that applies, in this order.
enum class ExclusionReason { offline, cgroup_cpuset, affinity_mask, not_in_list };

struct Exclusion {
  ExclusionReason reason;
  CpuSet cpus;         ///< never empty
  std::string detail;  ///< in words, with the file or flag that excludes them
};

struct Allowed {
  CpuSet cpus;
  NodeSet mems;
  std::optional<double> cpu_quota;            ///< CPUs' worth of time; absent: none
  std::optional<std::uint64_t> memory_bytes;  ///< absent: none
  std::vector<Exclusion> exclusions;          ///< one entry per reason
  std::vector<std::string> missing;           ///< what could not be read, in words
  std::string cpu_quota_path;                 ///< the file that sets cpu_quota; empty: none
  std::string memory_path;                    ///< the file that sets memory_bytes; empty: none
};

/// What Allowed is computed from, so that any machine can be data.
struct AllowedInputs {
  CpuSet present;  ///< every CPU the machine has, offline ones too
  CpuSet online;
  NodeSet nodes;                         ///< NUMA nodes with memory
  std::optional<CpuSet> affinity;        ///< absent: not known (another machine's files)
  std::optional<NodeSet> affinity_mems;  ///< Mems_allowed
  CgroupLimits cgroup;
  std::optional<CpuSet> list;        ///< --allowed
  std::optional<NodeSet> mems_list;  ///< --mems
  std::vector<std::string> missing;
};

/// Pure. The intersection, with one Exclusion for every reason that took a CPU away.
/// Throws Error(usage) when `list` or `mems_list` names what the machine does not have, and
/// Error(infeasible), with every reason, when no CPU is left or no node where the machine has nodes.
Allowed allowed_from(const AllowedInputs& inputs);

/// Reads the inputs from /proc and /sys of `sysroot`, the affinity mask of the calling thread included
/// when that is this machine, from /proc/self/status otherwise.
AllowedInputs read_allowed_inputs(const SysRoot& sysroot);

/// allowed_from(read_allowed_inputs(sysroot)).
Allowed read_allowed(const SysRoot& sysroot);

}  // namespace zf
