// What a handle stands for: the arena, the worker, and what has been submitted.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/clock.hpp"
#include "ipc/arena.hpp"
#include "worker_link.hpp"
#include "zf_runtime.h"

namespace zf {

/// Every function is that of the ABI with the same name, and throws what is not ZF_OK.
class Runtime {
 public:
  /// Plan, CPUs, memory, arena, worker: each step with its own refusal.
  static std::unique_ptr<Runtime> open(const zf_options& options, const std::vector<zf_group>& groups);

  void buffer(std::size_t group, zf_buffer_kind kind, void** pointer, std::size_t* bytes) const;
  void set_group(std::size_t group, const zf_group* settings);
  std::uint64_t submit(const zf_submit_args& args);
  /// False: not yet (a common answer of a program that asks now and then, so it costs no exception).
  bool wait(std::uint64_t ticket, std::int64_t timeout_ms);
  zf_stats stats();
  /// The worker is gone then, whatever is thrown.
  void end();
  /// The last call before the destructor.
  void close();

  /// Throws Refusal(ZF_ERROR_FORKED) in a child of the process that opened.
  void check_process() const;

 private:
  struct Group {
    zf_group settings;
    std::uint64_t serial = 0;                              ///< submissions so far
    std::uint64_t chosen_by = 0;                           ///< the last call of submit that named it
    std::array<std::uint64_t, kGradBuffers> tickets = {};  ///< of each buffer's last one
  };

  struct Prepared;
  Runtime(Prepared&& prepared, const std::vector<zf_group>& groups);

  void check_group(std::size_t group) const;
  void check_not_ended() const;
  /// wait() for the first `ticket` groups; false: not by `deadline`.
  bool await(std::uint64_t ticket, Nanoseconds deadline);
  void end_worker(Nanoseconds timeout_ns);
  /// Throws Refusal(ZF_WORKER_DIED) when the worker is dead and stays so. Under mutex_.
  void revive_worker();
  /// Fills chosen_ with the groups that a submission means; throws when one cannot be submitted now.
  void choose_groups(const zf_submit_args& args);
  void publish(std::uint32_t index, const zf_submit_args& args, std::uint64_t ticket);

  const pid_t owner_;
  const Nanoseconds close_timeout_ns_;
  const Nanoseconds spin_ns_;
  const Arena arena_;
  WorkerLink worker_;
  std::mutex mutex_;  ///< of all below
  std::vector<Group> groups_;
  std::vector<std::uint32_t>
      chosen_;               ///< of the present submission; kept, so that submitting allocates nothing
  std::uint64_t calls_ = 0;  ///< of submit
  std::atomic<bool> has_waiter_{false};
  std::atomic<bool> ended_{false};  ///< by end()
};

}  // namespace zf
