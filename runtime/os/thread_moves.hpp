// Moves the threads of this process from one set of CPUs to another, while the process goes on and may start
// more threads.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/id_set.hpp"

namespace zf {

/// A thread and its affinity mask.
struct ThreadMask {
  pid_t tid = 0;
  CpuSet cpus;
};

/// The threads of a process. Tests simulate one.
struct ThreadTable {
  /// Returns all threads with their masks. Throws Error(runtime_error).
  std::function<std::vector<ThreadMask>()> list;
  /// Sets a thread's mask and returns the mask that it then has; absent if the thread has ended. Throws
  /// Error(runtime_error) if the machine refuses.
  std::function<std::optional<CpuSet>(pid_t, const CpuSet&)> set;
};

/// Returns the table of this process: /proc/self/task and sched_setaffinity.
ThreadTable own_threads();

/// The result of move_threads().
struct MovedThreads {
  std::size_t moved = 0;  ///< threads that have the new mask now
  std::string problem;    ///< why a thread may still have the old mask; empty: none has it
};

/// How often move_threads() looks at all threads before it gives up.
inline constexpr int kMostPasses = 50;

/// Gives the mask `to` to every thread with exactly the mask `from`. A thread with any other mask keeps it:
/// the program chose it. A thread that is being started inherits the mask of the thread that starts it, so
/// one pass may miss it. Therefore it looks again until a pass finds no thread with the mask `from` and no
/// new thread. Never throws: what is refused is the `problem`, and the thread then has another mask than
/// `to`.
MovedThreads move_threads(const ThreadTable& threads, const CpuSet& from, const CpuSet& to);

}  // namespace zf
