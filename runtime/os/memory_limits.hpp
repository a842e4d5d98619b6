// Reads what limits the memory of this process and of its job, besides what it may use by Allowed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "os/allowed.hpp"
#include "os/sysroot.hpp"

namespace zf {

/// Members that cannot be read are absent. All are bytes.
struct MemoryLimits {
  std::optional<std::uint64_t> total = {};      ///< MemTotal
  std::optional<std::uint64_t> available = {};  ///< MemAvailable
  std::optional<std::uint64_t> cgroup_used =
      {};  ///< anonymous and shared memory of the group that sets the limit
  std::optional<std::uint64_t> commit_left =
      {};  ///< CommitLimit - Committed_AS; only if overcommitting is off
  std::optional<std::uint64_t> locked_memory = {};  ///< the soft limit; absent: unlimited
  std::optional<std::uint64_t> huge_pages = {};  ///< reserved for programs that ask for them by name; 0: none
  std::optional<std::uint64_t> shared_memory = {};  ///< what /dev/shm has room for
  bool shared_memory_is_missing = false;            ///< nothing is mounted there
};

/// Never throws: what cannot be read is absent. `allowed` names the group that sets the memory limit.
MemoryLimits read_memory_limits(const SysRoot& sysroot, const Allowed& allowed);

/// The file system at /dev/shm.
struct SharedMemory {
  bool is_mounted = false;
  std::optional<std::uint64_t>
      size;  ///< what its option says; absent: the kernel's default, half of the memory
  std::optional<std::uint64_t> free = {};  ///< what is not used; known of this machine alone

  /// Returns the bytes that the file system has room for; absent if that is not known.
  std::optional<std::uint64_t> room() const { return free ? free : size; }
};

/// Returns the file system at /dev/shm; nothing if /proc/mounts cannot be read.
std::optional<SharedMemory> read_shared_memory(const SysRoot& sysroot);

/// Returns the soft limit of locked memory in bytes; nothing if there is none or it cannot be read.
std::optional<std::uint64_t> locked_memory_limit(const SysRoot& sysroot);

}  // namespace zf
