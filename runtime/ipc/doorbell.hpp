// Wakes the other side when something happened. A wait is a bounded spin, then sleep on a futex that
// both processes share.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/clock.hpp"
#include "base/wait.hpp"

namespace zf {

/// A bell in shared memory. Other atomics (an epoch that is increased) tell what happened; the bell only
/// wakes the thread that sleeps until they change. There is one sleeper at a time, and any number of threads
/// may ring. The bell survives the death of either side: nothing is held while waiting, and a sleeper that is
/// killed costs one needless wake-up.
class Doorbell {
 public:
  /// Initializes the bell. Called once by the creator of the memory, and again when the side that sleeps here
  /// has been replaced.
  void init();

  /// Wakes the sleeper. Call it after the atomic that `happened` reads was stored with seq_cst. Costs one
  /// load, and a system call only if the other side sleeps.
  void ring() {
    // Both sides use seq_cst, as in Dekker's algorithm: either the sleeper sees the new epoch, or we see the
    // sleeper.
    if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
    if (sleepers_.exchange(0, std::memory_order_seq_cst) != 0) wake();
  }

  /// Waits until happened() is true: spins for at most `spin_ns`, then sleeps. Returns false at the deadline
  /// (a point of now_ns()). `happened` must load with seq_cst and have no side effects.
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
  /// Sleeps. Returns false at the deadline. May return true without a reason; the caller checks again.
  bool sleep_until(Nanoseconds deadline);

  std::atomic<std::uint32_t> sleepers_{0};  ///< the futex: 1 while a thread sleeps or is about to
  std::uint32_t unused_ = 0;
};

static_assert(std::atomic<std::uint32_t>::is_always_lock_free,
              "a lock inside an atomic does not work across processes");
static_assert(sizeof(Doorbell) == 8 && alignof(Doorbell) == 4, "lies in the control block");

}  // namespace zf
