// Finds what this process may really use: the intersection of affinity mask and cgroup cpuset. The files of
// /sys that list CPUs may be wrong (online_cpus.hpp); the kernel's mask is not.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/enum_names.hpp"
#include "base/id_set.hpp"
#include "os/cgroup.hpp"
#include "os/sysroot.hpp"

namespace zf {

/// The reason why a CPU that the machine has cannot be used here. The first reason that applies counts, in
/// this order.
/// leave_out_isolated() adds the last two (isolated.hpp).
enum class ExclusionReason { offline, cgroup_cpuset, affinity_mask, not_in_list, isolated, nohz_full };

/// The names in probe's JSON.
template <>
inline constexpr auto kEnumNames<ExclusionReason> =
    std::to_array<EnumName<ExclusionReason>>({{ExclusionReason::offline, "offline"},
                                              {ExclusionReason::cgroup_cpuset, "cgroup_cpuset"},
                                              {ExclusionReason::affinity_mask, "affinity_mask"},
                                              {ExclusionReason::not_in_list, "not_in_list"},
                                              {ExclusionReason::isolated, "isolated"},
                                              {ExclusionReason::nohz_full, "nohz_full"}});

struct Exclusion {
  ExclusionReason reason;
  CpuSet cpus;         ///< never empty
  std::string detail;  ///< the reason in words, with the file or flag that excludes the CPUs
};

struct Allowed {
  CpuSet cpus;
  NodeSet mems;
  std::optional<double> cpu_quota;            ///< CPU time, in CPUs; absent: no quota
  std::optional<std::uint64_t> memory_bytes;  ///< the memory limit; absent: no limit
  std::vector<Exclusion> exclusions;          ///< at most one entry per reason
  std::vector<std::string> missing;           ///< what could not be read, in words
  std::string cpu_quota_path;                 ///< the file that sets cpu_quota; empty: none
  std::string memory_path;                    ///< the file that sets memory_bytes; empty: none
  /// Neighbours share the CPUs (see neighbours_share()). allowed_from() does not set this: it does not know
  /// which CPUs are isolated.
  bool shared_cpus = false;
  /// --allowed or the plan says that the CPUs are this job's own, whatever the quota. Set with shared_cpus.
  bool own_by_name = false;
  std::string more_cpus = {};  ///< how the job gets more of them (core_shortage.hpp); empty: not known
};

/// The inputs of Allowed, as values, so that any machine can be described by data.
struct AllowedInputs {
  CpuSet present;                        ///< every CPU the machine has, offline ones too
  CpuSet online;                         ///< decides only of CPUs that are not in `affinity`
  NodeSet nodes;                         ///< NUMA nodes with memory
  std::optional<CpuSet> affinity;        ///< absent: not known, as for another machine's files
  std::optional<NodeSet> affinity_mems;  ///< Mems_allowed
  CgroupLimits cgroup;
  std::optional<CpuSet> list;  ///< --allowed
  std::string list_option = "--allowed";
  std::optional<NodeSet> mems_list;  ///< --mems
  std::vector<std::string> missing;
};

/// Returns the intersection, with one Exclusion for every reason that took a CPU away. Pure.
/// Throws Error(usage) if `list` or `mems_list` names a CPU or node that the machine does not have. Throws
/// Error(infeasible), with every reason, if no CPU is left, or if the machine has nodes and none is left.
Allowed allowed_from(const AllowedInputs& inputs);

/// Reads the inputs from /proc and /sys of `sysroot`. On this machine the affinity mask is that of the
/// calling thread; otherwise it comes from /proc/self/status.
AllowedInputs read_allowed_inputs(const SysRoot& sysroot);

/// Returns allowed_from(read_allowed_inputs(sysroot)).
Allowed read_allowed(const SysRoot& sysroot);

}  // namespace zf
