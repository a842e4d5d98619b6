// The trainer's view of the worker: starts it, waits for it, restarts it, knows why it died, and ends it.
#pragma once

#include <atomic>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "ipc/arena.hpp"
#include "ipc/call_thread.hpp"
#include "ipc/child.hpp"
#include "zf_runtime.h"

namespace zf {

/// The interval at which a wait checks that the worker lives, also if a thread watches it.
inline constexpr Nanoseconds kPollNs = kSecondNs / 20;

/// The settings with which a worker is started, the first time and after a death.
struct WorkerStart {
  std::string program;
  std::vector<std::string> arguments;
  std::vector<std::string> environment;  ///< a copy of the trainer's, which may change at any time
  Nanoseconds timeout_ns;                ///< limit of the time until the worker is ready
  std::uint32_t max_restarts;            ///< within restart_window_ns
  Nanoseconds restart_window_ns;
};

class WorkerLink {
 public:
  /// Starts the worker of an arena and returns when it is ready. Throws AbiError(ZF_ERROR_WORKER) with what
  /// it reported or died of, or AbiError(ZF_TIMEOUT). The worker has then ended.
  WorkerLink(const Arena& arena, WorkerStart start);
  /// Kills and reaps the worker unless that was done, as end() does at its timeout.
  ~WorkerLink();
  WorkerLink(const WorkerLink&) = delete;
  WorkerLink& operator=(const WorkerLink&) = delete;

  pid_t pid() const { return pid_.load(std::memory_order_relaxed); }

  enum class Answer { happened, timeout, died };
  /// Waits until happened() is true because of something that the worker does. One thread at a time.
  template <class Happened>
  Answer wait(Happened happened, Nanoseconds deadline, Nanoseconds spin_ns);

  /// Returns true once a death has been noticed, here or by poll_exit(). Makes no system call.
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

  enum class Restart {
    done,   ///< a worker runs
    later,  ///< not before restart_time(): successors die before they are ready
    never,  ///< the restarts are used up
  };
  /// Starts another worker over the same arena after a death was noticed. The worker finishes what is
  /// submitted; this returns without waiting for it, and never pauses. Does nothing if the worker lives.
  /// Throws AbiError(ZF_ERROR_WORKER) or Error(runtime_error) if the process cannot be started. No other
  /// thread may ring the work bell meanwhile.
  Restart restart();
  /// Returns the time (of now_ns()) from which on restart() starts a worker. Thread-safe.
  Nanoseconds restart_time();
  /// Returns true if the worker is dead and will not be restarted. That is decided once, when the death is
  /// noticed: max_restarts restarts then lay within the window. It stays so when the window has passed.
  bool is_gone() const { return gone_.load(std::memory_order_acquire); }
  /// Returns how many restarts lay within the window at the last death. Thread-safe.
  std::size_t recent_restarts();
  std::uint32_t restarts() const { return restarts_.load(std::memory_order_relaxed); }

  /// Lets the worker finish, kills it at the timeout, and reaps it. One that is still there 0.9 s later is
  /// reaped when it ends, also if another thread waits for it. Returns ZF_OK, ZF_TIMEOUT (it was killed) or
  /// ZF_WORKER_DIED. Call it only at the end.
  zf_status end(Nanoseconds timeout_ns);

 private:
  void start_process();
  void await_ready();
  /// Decides, at a death, whether and when the worker is restarted. The caller holds mutex_.
  void plan_restart(Nanoseconds now);
  void end_by_force();
  /// Kills the worker if it lives, and reaps it. Returns how it ended; absent if it could not be reaped
  /// within 0.9 s: reap_later() has it then. Throws lost_pidfd().
  std::optional<ExitStatus> end_process();
  void kill_and_reap() noexcept;

  const Arena& arena_;
  const WorkerStart start_;
  CallThread starter_;  ///< starts each worker; its end kills the worker, so it is destroyed after process_
  std::mutex mutex_;    ///< protects the next eight
  std::optional<Child> process_;
  ExitStatus exit_status_;  ///< of the last worker that died
  Nanoseconds started_ns_ = 0;
  bool start_given_up_ = false;
  std::string last_exit_reason_;
  std::deque<Nanoseconds> restart_times_;  ///< of the restarts within the window, the oldest first
  Nanoseconds restart_time_ = 0;
  Nanoseconds pause_ = 0;  ///< before the next restart; 0: the last worker became ready
  std::atomic<pid_t> pid_;
  std::atomic<std::uint32_t> restarts_{0};
  std::atomic<bool> gone_{false};  ///< stored before dead_
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
