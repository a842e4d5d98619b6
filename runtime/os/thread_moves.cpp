#include "os/thread_moves.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <exception>
#include <set>
#include <string_view>
#include <utility>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "os/affinity.hpp"
#include "os/folder.hpp"

namespace zf {
namespace {

constexpr const char* kTasks = "/proc/self/task";

std::vector<pid_t> own_tids() {
  std::vector<pid_t> tids;
  const int error = for_each_entry(kTasks, [&](std::string_view name) {
    pid_t tid = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), tid).ec == std::errc()) tids.push_back(tid);
  });
  if (error != 0) throw_errno(error, kTasks);
  return tids;
}

std::vector<ThreadMask> own_masks() {
  std::vector<ThreadMask> threads;
  for (const pid_t tid : own_tids()) {
    if (auto cpus = find_thread_affinity(tid)) threads.push_back({tid, *std::move(cpus)});
  }
  return threads;
}

/// The threads seen so far, and what became of them.
class Mover {
 public:
  Mover(const ThreadTable& threads, const CpuSet& from, const CpuSet& to)
      : threads_(threads), from_(from), to_(to) {}

  /// Looks at every thread once. Returns whether another look is necessary.
  bool pass() {
    bool again = false;
    for (const ThreadMask& thread : threads_.list()) {
      if (seen_.insert(thread.tid).second) again = true;
      if (thread.cpus != from_ || stuck_.contains(thread.tid)) continue;
      again = true;
      move(thread.tid);
    }
    return again;
  }

  MovedThreads result() && { return std::move(result_); }

 private:
  void move(pid_t tid) {
    try {
      const auto now = threads_.set(tid, to_);
      if (!now) return;
      if (*now == to_) {
        ++result_.moved;
        return;
      }
      stuck_.insert(tid);
      note(format_text("thread {} has the mask {} instead of {}", tid, print(*now), print(to_)));
    } catch (const std::exception& error) {
      stuck_.insert(tid);
      note(format_text("thread {}: {}", tid, error.what()));
    }
  }

  /// Keeps the first problem: the others have the same cause nearly always.
  void note(std::string problem) {
    if (result_.problem.empty()) result_.problem = std::move(problem);
  }

  const ThreadTable& threads_;
  const CpuSet& from_;
  const CpuSet& to_;
  std::set<pid_t> seen_;
  std::set<pid_t> stuck_;  ///< not tried again
  MovedThreads result_;
};

}  // namespace

ThreadTable own_threads() { return {.list = own_masks, .set = set_thread_affinity}; }

MovedThreads move_threads(const ThreadTable& threads, const CpuSet& from, const CpuSet& to) {
  Mover mover(threads, from, to);
  std::string problem;
  try {
    int passes = 0;
    while (mover.pass()) {
      if (++passes < kMostPasses) continue;
      problem = format_text("threads were still being started when all had been looked at {} times", passes);
      break;
    }
  } catch (const std::exception& error) {
    problem = error.what();
  }
  MovedThreads result = std::move(mover).result();
  if (result.problem.empty()) result.problem = std::move(problem);
  return result;
}

}  // namespace zf
