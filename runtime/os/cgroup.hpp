// What the control groups of this process leave to it, for cgroup v1, v2 and both mounted at once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/id_set.hpp"
#include "os/sysroot.hpp"

namespace zf {

/// A limit, and the file that sets it (for messages).
template <class T>
struct Limited {
  T value;
  std::string path;
};

/// Absent means: no such limit, or no such controller.
struct CgroupLimits {
  std::optional<Limited<CpuSet>> cpus;  ///< effective cpuset
  std::optional<Limited<NodeSet>> mems;
  std::optional<Limited<double>> cpu_quota;            ///< CPUs' worth of time; the tightest ancestor's
  std::optional<Limited<std::uint64_t>> memory_bytes;  ///< the tightest ancestor's
};

/// The groups of this process, found through /proc/self/cgroup and /proc/self/mountinfo and walked up to
/// the mount's root (a leaf may say "max" or "unlimited" where its parent does not). Never throws for a
/// missing file; throws Error(runtime_error) with the path when a file is there and makes no sense.
CgroupLimits read_cgroup_limits(const SysRoot& sysroot);

}  // namespace zf
