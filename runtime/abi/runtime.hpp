// What a handle stands for: the arena, the worker, and what has been submitted.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/clock.hpp"
#include "ipc/arena.hpp"
#include "opening.hpp"
#include "submissions.hpp"
#include "worker_link.hpp"
#include "worker_watch.hpp"
#include "zf_runtime.h"

namespace zf {

/// Every function is that of the ABI with the same name, and throws what is not ZF_OK.
class Runtime {
 public:
  /// Starts the worker.
  Runtime(Opening opening, const std::vector<zf_group>& groups);

  void buffer(std::size_t group, zf_buffer_kind kind, void** pointer, std::size_t* bytes) const;
  void set_group(std::size_t group, const zf_group* settings);
  std::uint64_t submit(const zf_submit_args& args);
  /// False: not yet (a common answer of a program that asks now and then, so it costs no exception).
  bool wait(std::uint64_t ticket, std::int64_t timeout_ms);
  /// False: there are not so many yet.
  bool progress(std::uint64_t ticket, std::size_t group, std::uint64_t at_least, std::int64_t timeout_ms,
                std::uint64_t* elements);
  void norm(std::size_t group, std::uint32_t buffer, double* sum_of_squares, std::int32_t* finite);
  std::uint64_t step(std::size_t group);
  void set_step(std::size_t group, std::uint64_t step);
  void export_state(const char* path);
  void import_state(const char* path);
  zf_stats stats();
  /// The worker is gone then, whatever is thrown.
  void end();
  /// The last call before the destructor.
  void close();

  /// Throws AbiError(ZF_ERROR_FORKED) in a child of the process that opened.
  void check_process() const;

 private:
  void check_not_ended() const;
  /// Throws AbiError(ZF_ERROR_BUSY) while the worker may write. Under mutex_.
  void check_all_done() const;
  /// The ticket, or the last one for 0. Throws AbiError(ZF_ERROR_USAGE) for one that was not given.
  std::uint64_t known_ticket(std::uint64_t ticket) const;
  /// False: not by `deadline`. Revives the worker if need be.
  template <class Happened>
  bool await(Happened happened, Nanoseconds deadline);
  bool await_ticket(std::uint64_t ticket, Nanoseconds deadline);
  void end_worker(Nanoseconds timeout_ns);
  /// Throws AbiError(ZF_WORKER_DIED) when the worker is dead and stays so. Under mutex_.
  void restart_worker();
  /// Of the watch.
  bool on_death();

  const pid_t owner_;
  const Nanoseconds close_timeout_ns_;
  const Nanoseconds spin_ns_;
  const Arena arena_;
  WorkerLink worker_;
  std::mutex submit_mutex_;  ///< nothing new is submitted while it is held; taken before mutex_
  std::mutex mutex_;         ///< of submissions_, never for long
  Submissions submissions_;
  std::atomic<bool> has_waiter_{false};
  std::atomic<bool> ended_{false};  ///< by end()
  WorkerWatch watch_;               ///< goes first
};

}  // namespace zf
