// The trainer's end of the worker: starts it, waits on it, knows what it died of, ends it.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "ipc/arena.hpp"
#include "ipc/child.hpp"
#include "zf_runtime.h"

namespace zf {

/// So often does a wait look whether the worker lives, whoever else watches it.
inline constexpr Nanoseconds kPollNs = kSecondNs / 20;

/// How a worker is started, each time.
struct WorkerStart {
  std::string program;
  std::vector<std::string> arguments;
  std::vector<std::string> environment;  ///< the trainer's, as it was then: it may change its own at any time
  Nanoseconds timeout_ns;                ///< until it is ready
  std::uint32_t max_restarts;
};

class WorkerLink {
 public:
  /// Starts the worker of an arena, and returns when it is ready. Throws AbiError(ZF_ERROR_WORKER) with what
  /// it said or died of, AbiError(ZF_TIMEOUT); then it is gone.
  WorkerLink(const Arena& arena, WorkerStart start);

  pid_t pid() const { return pid_.load(std::memory_order_relaxed); }

  enum class Answer { happened, timeout, died };
  /// Waits for something the worker does. One thread at a time.
  template <class Happened>
  Answer wait(Happened happened, Nanoseconds deadline, Nanoseconds spin_ns);

  /// True once a death has been noticed, here or by poll_exit(). No system call.
  bool is_known_dead() const { return dead_.load(std::memory_order_acquire); }
  /// One look. Thread-safe.
  bool poll_exit();
  /// A copy of its pidfd. Thread-safe. Throws Error(runtime_error).
  FileDescriptor pidfd();
  /// What is left of the time in which it must be ready, 0 or less when it is over; absent: it is.
  /// Thread-safe.
  std::optional<Nanoseconds> time_to_be_ready();
  /// Kills it if it is not ready, and lets last_exit_reason() say so. Thread-safe.
  void give_up_start();
  /// What it died of the last time; "" if it never did. Thread-safe.
  std::string last_exit_reason();

  /// After a death was noticed: starts another worker over the same arena, which finishes what is submitted,
  /// and returns without waiting for it. Nothing if it lives. False when the restarts are used up. Throws
  /// AbiError(ZF_ERROR_WORKER) or Error(runtime_error) when the process cannot be made. Not while another
  /// thread rings the work bell.
  bool restart();
  /// Dead, and stays so.
  bool is_gone() const { return is_known_dead() && restarts() >= start_.max_restarts; }
  std::uint32_t restarts() const { return restarts_.load(std::memory_order_relaxed); }

  /// Lets it finish, then kills it; collects it. ZF_OK, ZF_TIMEOUT (killed), ZF_WORKER_DIED. At the end only.
  zf_status end(Nanoseconds timeout_ns);

 private:
  void await_ready();

  const Arena& arena_;
  const WorkerStart start_;
  std::mutex mutex_;  ///< of the next four
  std::optional<Child> process_;
  Nanoseconds started_ns_ = 0;
  bool start_given_up_ = false;
  std::string last_exit_reason_;
  std::atomic<pid_t> pid_;
  std::atomic<std::uint32_t> restarts_{0};
  std::atomic<bool> dead_{false};
};

}  // namespace zf

#include <algorithm>

template <class Happened>
zf::WorkerLink::Answer zf::WorkerLink::wait(Happened happened, Nanoseconds deadline, Nanoseconds spin_ns) {
  for (;; spin_ns = 0) {
    const Nanoseconds slice_end = std::min(deadline, now_ns() + kPollNs);
    if (arena_.control().done.wait(happened, slice_end, spin_ns)) return Answer::happened;
    // What it finished before it died counts.
    if (poll_exit()) return happened() ? Answer::happened : Answer::died;
    if (now_ns() >= deadline) return Answer::timeout;
  }
}
