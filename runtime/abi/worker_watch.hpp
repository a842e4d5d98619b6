// Notices the worker's death at once, also while nobody waits for anything.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>

#include "base/file_descriptor.hpp"
#include "worker_link.hpp"

namespace zf {

/// A thread of the trainer, with its CPU mask and all signals blocked, that sleeps on the worker's pidfd.
class WorkerWatch {
 public:
  /// `on_death` is called on that thread whenever a worker has ended; false ends the watch. What it throws is
  /// left for the next wait to say, and tried again after a second. A worker that is not ready in time after
  /// its start is killed, which is a death like any other.
  /// Throws AbiError(ZF_ERROR_SYSTEM) when the thread cannot be had, Error(runtime_error) for its
  /// descriptors.
  WorkerWatch(WorkerLink& worker, std::function<bool()> on_death);
  /// Stops.
  ~WorkerWatch();
  WorkerWatch(const WorkerWatch&) = delete;
  WorkerWatch& operator=(const WorkerWatch&) = delete;

  /// Returns when on_death() will not be called any more. Thread-safe; the second call does nothing.
  void stop();

 private:
  enum class Event { stopped, death, late };
  Event next_event();
  /// What poll found of `worker` (-1: none), after `time` at the latest.
  short wait_for(int worker, Nanoseconds time);
  void retry_later();
  void watch() noexcept;

  WorkerLink& worker_;
  const std::function<bool()> on_death_;
  std::atomic<bool> stopping_{false};
  const FileDescriptor stop_;  ///< eventfd: wakes the thread to see that
  bool stop_lost_ = false;     ///< that was lost: only the end of a slice is left
  /// A copy: another thread may replace the worker, and with it its descriptor, in the middle of a poll.
  FileDescriptor pidfd_;
  std::mutex mutex_;  ///< of thread_
  std::thread thread_;
};

}  // namespace zf
