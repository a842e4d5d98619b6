// Reads the limits that control groups set for this process: cgroup v1, v2, or both mounted at once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/id_set.hpp"
#include "os/sysroot.hpp"

namespace zf {

/// A limit, and the file that sets it. Messages name the file.
template <class T>
struct Limited {
  T value;
  std::string path;
};

/// The limits of a process. A member is absent if there is no such limit or no such controller.
struct CgroupLimits {
  std::optional<Limited<CpuSet>> cpus;  ///< effective cpuset
  std::optional<Limited<NodeSet>> mems;
  std::optional<Limited<double>> cpu_quota;  ///< CPU time, in CPUs; the tightest limit among the ancestors
  std::optional<Limited<std::uint64_t>> memory_bytes;  ///< the tightest limit among the ancestors
};

/// Reads the limits of this process's groups. Finds them through /proc/self/cgroup and /proc/self/mountinfo,
/// and walks up to the root of the mount, because a group may say "max" while its parent sets a limit.
/// A missing file is no error. Throws Error(runtime_error) with the path if a file cannot be understood.
CgroupLimits read_cgroup_limits(const SysRoot& sysroot);

}  // namespace zf
