// Notices the worker's death at once, also while no thread waits for work.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>

#include "abi/worker_link.hpp"
#include "base/file_descriptor.hpp"

namespace zf {

/// A thread of the trainer that sleeps on the worker's pidfd. It has the CPU mask of the trainer and blocks
/// all signals.
class WorkerWatch {
 public:
  /// Calls `on_death` on that thread whenever a worker has ended. If it returns `later`, it is called again
  /// at worker.restart_time(); if it returns `never`, the watch ends. If it throws, it is called again after
  /// a second, and the next wait reports the same error. A worker that is not ready in time after its start
  /// is killed, which counts as a death. Throws AbiError(ZF_ERROR_SYSTEM) if the thread cannot be started,
  /// and Error(runtime_error) if its descriptors cannot be opened.
  WorkerWatch(WorkerLink& worker, std::function<WorkerLink::Restart()> on_death);
  /// Stops the watch.
  ~WorkerWatch();
  WorkerWatch(const WorkerWatch&) = delete;
  WorkerWatch& operator=(const WorkerWatch&) = delete;

  /// Ends the thread: on_death() is not called any more after this returns. Thread-safe; the second call does
  /// nothing.
  void stop();

 private:
  enum class Event { stopped, death, late };
  Event next_event();
  /// Polls the descriptor `worker` (-1: none) for at most `time`, and returns its events.
  short wait_for(int worker, Nanoseconds time);
  /// Has the worker restarted. Returns false if the watch ends.
  bool after_death();
  void retry_later();
  /// Sleeps until the worker may be restarted, or until the watch is stopped.
  void pause();
  void watch() noexcept;

  WorkerLink& worker_;
  const std::function<WorkerLink::Restart()> on_death_;
  std::atomic<bool> stopping_{false};
  const FileDescriptor stop_;  ///< an eventfd that wakes the thread to check stopping_
  bool stop_lost_ =
      false;  ///< the program closed stop_: stopping_ is then checked only after each poll of at most 1 s
  /// A copy, because another thread may replace the worker, and with it its descriptor, during a poll.
  FileDescriptor pidfd_;
  std::mutex mutex_;  ///< protects thread_
  std::thread thread_;
};

}  // namespace zf
