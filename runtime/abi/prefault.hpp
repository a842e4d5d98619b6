// Maps the arena's pages in the trainer before the program touches them.
#pragma once

#include <atomic>
#include <thread>

#include "ipc/arena.hpp"

namespace zf {

/// A thread of the trainer that puts the pages of the arrays which training writes and reads at each step
/// (parameters, gradients, outputs) in the trainer's page tables, and then ends. Without it, each page of 4
/// KiB costs a fault at the first write. Moments are left out: reading them takes one fault for sixteen pages
/// anyway, and pages that the trainer does not map count less when memory runs out. It has the CPU mask of
/// the thread that makes it, and blocks all signals.
class Prefault {
 public:
  /// Starts the thread. All pages of the arena must have been reserved. If it cannot be started, nothing is
  /// prefaulted.
  explicit Prefault(const Arena& arena);
  /// Stops the thread. Waits until it has mapped the piece of an array that it is at, 4 MiB at most.
  ~Prefault();
  Prefault(const Prefault&) = delete;
  Prefault& operator=(const Prefault&) = delete;

 private:
  void run() const noexcept;
  void map(const ArrayPlace& array) const noexcept;

  const Arena& arena_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace zf
