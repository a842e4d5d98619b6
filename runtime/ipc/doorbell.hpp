// One side tells the other that something happened: a bounded spin, then sleep on a process-shared semaphore.
#pragma once

#include <semaphore.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/clock.hpp"
#include "base/wait.hpp"

namespace zf {

/// Lies in shared memory. What happened is told by atomics elsewhere (an epoch that went up); the bell only
/// wakes whoever sleeps over them. One sleeper at a time; any number of ringers. Survives the death of
/// either side: nothing is held while waiting, and a sleeper killed in its sleep costs one needless wake.
class Doorbell {
 public:
  /// Once, by the creator of the memory, and again when the side that sleeps here has been replaced.
  /// Throws Error(runtime_error).
  void init();

  /// Call after the atomic that `happened` reads was stored with seq_cst. A load, and a system call only when
  /// the other side sleeps.
  void ring() {
    // seq_cst on both sides, Dekker-wise: either the sleeper sees the new epoch, or we see the sleeper.
    if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
    if (sleepers_.exchange(0, std::memory_order_seq_cst) != 0) wake();
  }

  /// Waits until happened() is true: at most `spin_ns` on the CPU, then asleep. False at the deadline
  /// (a point of now_ns()). `happened` reads with seq_cst and has no side effects.
  template <class Happened>
  bool wait(Happened happened, Nanoseconds deadline, Nanoseconds spin_ns) {
    if (happened()) return true;
    if (spin_ns > 0 && spin_until(happened, std::min(deadline, now_ns() + spin_ns))) return true;
    for (;;) {
      sleepers_.exchange(1, std::memory_order_seq_cst);
      if (happened()) {
        sleepers_.store(0, std::memory_order_seq_cst);
        return true;
      }
      if (!sleep_until(deadline)) {
        sleepers_.store(0, std::memory_order_seq_cst);
        return happened();
      }
    }
  }

 private:
  void wake();
  /// False at the deadline. May return true for no reason: the caller looks again.
  bool sleep_until(Nanoseconds deadline);

  std::atomic<std::uint32_t> sleepers_{0};
  std::uint32_t unused_ = 0;
  sem_t semaphore_;
};

static_assert(std::atomic<std::uint32_t>::is_always_lock_free,
              "a lock inside an atomic does not work across processes");
static_assert(sizeof(Doorbell) == 40 && alignof(Doorbell) == 8, "lies in the control block");

}  // namespace zf
