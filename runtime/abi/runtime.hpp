// The object behind a handle: the arena, the worker, and the submitted work.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "abi/exporting.hpp"
#include "abi/freeing.hpp"
#include "abi/keeping.hpp"
#include "abi/narrowing.hpp"
#include "abi/opening.hpp"
#include "abi/prefault.hpp"
#include "abi/submissions.hpp"
#include "abi/worker_link.hpp"
#include "abi/worker_watch.hpp"
#include "base/clock.hpp"
#include "ipc/arena.hpp"
#include "ipc/notes.hpp"
#include "zf_runtime.h"

namespace zf {

/// Each function implements the function of the ABI with the same name. It throws if the status is not ZF_OK.
class Runtime {
 public:
  /// Starts the worker.
  explicit Runtime(Opening opening);

  void buffer(std::size_t group, zf_buffer_kind kind, void** pointer, std::size_t* bytes) const;
  std::uint64_t submit(const zf_submit_args& args);
  std::uint64_t go();
  /// Returns false if the work is not done yet. That is common in a program that polls, so it is no
  /// exception.
  bool wait(std::uint64_t ticket, std::int64_t timeout_ms);
  /// Returns false if fewer elements are done yet.
  bool progress(std::uint64_t ticket, std::size_t group, std::uint64_t at_least, std::int64_t timeout_ms,
                std::uint64_t* elements);
  void note(void* bytes, std::size_t size, std::uint64_t* step);
  void prepared_note(void* bytes, std::size_t size, std::uint64_t* step);
  void norm(std::size_t group, std::uint32_t buffer, double* sum_of_squares, std::int32_t* finite);
  std::uint64_t step(std::size_t group);
  void read_state(std::size_t group, zf_buffer_kind kind, std::uint64_t begin, std::span<float> values);
  void write_state(std::size_t group, zf_buffer_kind kind, std::uint64_t begin,
                   std::span<const float> values);
  void overwriting(bool begins);
  void export_state(const char* path);
  void export_begin(const char* path);
  /// Returns false if the export is not done yet.
  bool export_wait(std::int64_t timeout_ms);
  void import_state(const char* path);
  void save_begin();
  /// Returns false if the copy is not made yet.
  bool save_wait(std::int64_t timeout_ms);
  void saved(std::size_t group, zf_buffer_kind kind, void** pointer, std::size_t* bytes);
  /// Returns false if the worker still writes the copy.
  bool save_end();
  zf_stats stats();
  /// Ends the worker. It has ended also if this throws.
  void end();
  /// Ends the worker if end() did not. No other call may follow.
  void close();

  /// Throws AbiError(ZF_ERROR_FORKED) in a child of the process that opened the handle.
  void check_process() const;

 private:
  void check_not_ended() const;
  /// Throws AbiError(ZF_ERROR_USAGE) if notes have another size.
  void check_note_size(std::size_t size) const;
  /// Copies a note and the number of its step; 0 if it is null.
  void copy_note(Note* note, void* bytes, std::uint64_t* step) const;
  /// Throws AbiError(ZF_ERROR_BUSY) if submitted work that changes parameters or moments is not done, or a
  /// speculated step not decided. The caller holds mutex_.
  void check_state_whole() const;
  /// Throws what check_state_whole() throws, and AbiError(ZF_ERROR_BUSY) if other submitted work is not done.
  void check_all_done() const;
  /// Throws AbiError(ZF_ERROR_BUSY) if a speculated step is not decided. The caller holds mutex_.
  void check_decided() const;
  /// Checks that a copy of the state may be begun, and returns the room for it.
  std::uint64_t check_saving();
  /// Calls begin(submit, is_lost) of an Exporting. The caller holds no mutex.
  template <class Begin>
  void begin_saving(std::uint64_t room, Begin begin);
  /// Throws AbiError(ZF_ERROR_USAGE) if the group has no such parameters or moments.
  void check_state_range(std::size_t group, zf_buffer_kind kind, std::uint64_t begin,
                         std::uint64_t count) const;
  /// Returns the deadline of a wait. A timeout of 0 only polls, and a negative one waits for ever.
  static Nanoseconds deadline_of(std::int64_t timeout_ms);
  /// Returns the ticket, or the last one for 0. Throws AbiError(ZF_ERROR_USAGE) if the ticket was never given
  /// out.
  std::uint64_t known_ticket(std::uint64_t ticket) const;
  /// When the worker wakes a thread that waits: at each chunk of each of its threads, or when work has ended.
  enum class WakeUps { each_chunk, end };
  /// Waits for happened(). Returns false at the deadline. Restarts the worker if it died.
  template <class Happened>
  bool await(Happened happened, Nanoseconds deadline, WakeUps wake_ups);
  bool await_ticket(std::uint64_t ticket, Nanoseconds deadline);
  void end_worker(Nanoseconds timeout_ns);
  /// Restarts the worker if it is dead, unless it must not be restarted yet. Returns whether it runs. Throws
  /// AbiError(ZF_WORKER_DIED) if the restarts are used up. The caller holds mutex_.
  bool restart_worker();
  /// Restarts the worker if it died and a restart is left. Only the watch calls this.
  WorkerLink::Restart on_death();
  /// Copies to facts_ what a worker writes before it is ready, unless one is just writing it. The caller
  /// holds mutex_, so no other worker is started meanwhile.
  void keep_facts_of_ready_worker();
  /// Finishes what the trainer before had begun, and takes back what it had speculated.
  void finish_begun(Nanoseconds timeout_ns);
  /// Narrows the process if that is wanted. Throws AbiError(ZF_ERROR_SYSTEM) if it is required and fails.
  void narrow(const NarrowingWish& wish);

  const pid_t owner_;
  const Nanoseconds close_timeout_ns_;
  const Nanoseconds spin_ns_;
  std::optional<Keeping> keeping_;  ///< destroyed when no worker uses the arena any more
  const FreedInBackground memory_;  ///< outlives everything that uses the arena
  const Arena& arena_;
  const std::uint32_t home_threads_;
  const std::uint32_t training_threads_;
  std::uint32_t narrowed_threads_ = 0;
  std::string narrow_note_;
  std::optional<Narrowing> narrowing_;  ///< destroyed after the worker, which uses the other side
  WorkerLink worker_;
  std::mutex submit_mutex_;  ///< held while nothing may be submitted; locked before mutex_
  std::mutex mutex_;         ///< protects submissions_; never held for long
  Submissions submissions_;
  zf_stats facts_ = ZF_STATS_INIT;  ///< of the last worker that was ready; protected by mutex_
  std::atomic<bool> has_waiter_{false};
  std::atomic<bool> ended_{false};          ///< set by end()
  std::atomic<bool> has_no_worker_{false};  ///< set when it has ended for good
  Exporting exporting_;
  Prefault prefault_;  ///< after worker_, which has reserved the pages
  WorkerWatch watch_;  ///< the last member: it is destroyed first
};

}  // namespace zf
