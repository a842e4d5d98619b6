// Tells a process from those that it forked.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace zf {

/// Names one process. The pid alone does not: in a new namespace a child can have that of its parent.
struct ProcessId {
  pid_t pid = 0;
  std::uint64_t forks = 0;  ///< forks on the way to this process, since the library was loaded
  bool operator==(const ProcessId&) const = default;

  /// Returns true if a process that had loaded the library was forked to make this one.
  bool is_forked() const { return forks != 0; }
};

/// Returns the id of the calling process. Any thread may call, also in a child that was just forked.
ProcessId this_process();

}  // namespace zf
