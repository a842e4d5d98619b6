// Notices when a thread of a running job is moved to other CPUs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "base/id_set.hpp"

namespace zf {

/// A thread of a process. Both numbers may be given to another thread once this one has ended.
struct ThreadId {
  int pid = 0;
  int tid = 0;
  auto operator<=>(const ThreadId&) const = default;
};

/// The CPUs of a bound process: those that it was started on, and those that our runtime leaves to training
/// while it is open.
struct ProcessSides {
  CpuSet home;
  CpuSet training;
  bool is_open = false;  ///< whether a zf-optimizer of this process lives
};

/// Where threads are read. Tests simulate it.
struct ThreadSource {
  /// Returns all threads of the watched processes.
  std::function<std::vector<ThreadId>()> list;
  /// Returns the CPUs that a thread may run on; absent if it has ended.
  std::function<std::optional<CpuSet>(const ThreadId&)> cpus;
  /// Returns when a thread was started, which tells it from a later one of the same number; absent if it has
  /// ended.
  std::function<std::optional<std::uint64_t>(const ThreadId&)> started;
  /// Returns the thread that zf_runtime.bind() starts on the new CPUs before it moves the others of a
  /// process; absent if there is none.
  std::function<std::optional<ThreadId>(int pid)> binding_thread = [](int) { return std::nullopt; };
  /// Returns the sides of a process that our runtime may narrow; absent if none is known.
  std::function<std::optional<ProcessSides>(int pid)> sides = [](int) { return std::nullopt; };
  /// Returns the present time, on the clock of `started`.
  std::function<std::uint64_t()> now;
  std::uint64_t ticks_per_s = 100;  ///< the unit of both
};

/// A thread that has other CPUs than at the look before.
struct ThreadMove {
  ThreadId thread;
  CpuSet from;
  CpuSet to;
  bool operator==(const ThreadMove&) const = default;
};

/// Compares the masks of all threads from look to look. A thread that begins places itself, or is placed by
/// the thread that starts it, within its first second. So a move counts if the look before it came later than
/// that, and had seen the thread before (unless it was the first look): a sandbox may not say when a thread
/// started. A move back counts as well. A move to where the process binds itself does not, nor does one from
/// its home to its training side when our runtime has opened, or back when it has closed. A thread that was
/// moved and moved back between two looks is not seen.
class ThreadWatch {
 public:
  explicit ThreadWatch(ThreadSource source) : source_(std::move(source)) {}

  /// Looks at every thread once. Returns the moves since the look before; none at the first one.
  std::vector<ThreadMove> look();
  /// Returns how many threads the last look has seen.
  std::size_t threads() const { return known_.size(); }

 private:
  struct Known {
    std::uint64_t started = 0;
    CpuSet cpus;
    bool is_settled = false;
    std::optional<CpuSet> placed = {};  ///< where it settled, if it was moved since
  };

  /// Returns the CPUs to which a process is just binding itself: those on which its binding thread settled.
  std::optional<CpuSet> binding_to(int pid) const;

  ThreadSource source_;
  std::map<ThreadId, Known> known_;
  bool is_first_ = true;
};

}  // namespace zf
