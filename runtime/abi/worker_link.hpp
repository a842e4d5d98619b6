// The trainer's view of the worker: starts it, waits for it, restarts it, knows why it died, and ends it.
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

/// How often a wait checks that the worker lives, whoever else watches it.
inline constexpr Nanoseconds kPollNs = kSecondNs / 20;

/// How a worker is started, the first time and after a death.
struct WorkerStart {
  std::string program;
  std::vector<std::string> arguments;
  std::vector<std::string> environment;  ///< a copy of the trainer's, which may change at any time
  Nanoseconds timeout_ns;                ///< limit of the time until the worker is ready
  std::uint32_t max_restarts;
};

class WorkerLink {
 public:
  /// Starts the worker of an arena and returns when it is ready. Throws AbiError(ZF_ERROR_WORKER) with what
  /// it reported or died of, or AbiError(ZF_TIMEOUT). The worker has then ended.
  WorkerLink(const Arena& arena, WorkerStart start);

  pid_t pid() const { return pid_.load(std::memory_order_relaxed); }

  enum class Answer { happened, timeout, died };
  /// Waits until happened() is true because of something that the worker does. One thread at a time.
  template <class Happened>
  Answer wait(Happened happened, Nanoseconds deadline, Nanoseconds spin_ns);

  /// True once a death has been noticed, here or by poll_exit(). Makes no system call.
  bool is_known_dead() const { return dead_.load(std::memory_order_acquire); }
  /// Checks whether the worker has ended, without waiting. Thread-safe.
  bool poll_exit();
  /// Returns a copy of its pidfd. Thread-safe. Throws Error(runtime_error).
  FileDescriptor pidfd();
  /// Returns how much time is left for the worker to become ready; 0 or less if that time is over. Absent if
  /// it is ready. Thread-safe.
  std::optional<Nanoseconds> time_to_be_ready();
  /// Kills the worker if it is not ready. last_exit_reason() will say so. Thread-safe.
  void give_up_start();
  /// Returns why the worker died the last time; "" if it never did. Thread-safe.
  std::string last_exit_reason();

  /// Starts another worker over the same arena after a death was noticed. The worker finishes what is
  /// submitted; this returns without waiting for it. Does nothing if the worker lives. Returns false if the
  /// restarts are used up. Throws AbiError(ZF_ERROR_WORKER) or Error(runtime_error) if the process cannot be
  /// started. No other thread may ring the work bell meanwhile.
  bool restart();
  /// True if the worker is dead and will not be restarted.
  bool is_gone() const { return is_known_dead() && restarts() >= start_.max_restarts; }
  std::uint32_t restarts() const { return restarts_.load(std::memory_order_relaxed); }

  /// Lets the worker finish, kills it at the timeout, and reaps it. Returns ZF_OK, ZF_TIMEOUT (it was killed)
  /// or ZF_WORKER_DIED. Call it only at the end.
  zf_status end(Nanoseconds timeout_ns);

 private:
  void await_ready();

  const Arena& arena_;
  const WorkerStart start_;
  std::mutex mutex_;  ///< protects the next four
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
    // Work that it finished before it died counts.
    if (poll_exit()) return happened() ? Answer::happened : Answer::died;
    if (now_ns() >= deadline) return Answer::timeout;
  }
}
