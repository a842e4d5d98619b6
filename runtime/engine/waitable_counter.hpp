// A counter that threads wait on: a bounded spin for the common short wait, then a futex for the long one.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/clock.hpp"

namespace zf {

/// Cores fetch lines of 64 bytes, and Intel's L2 fetches them in pairs. Data that different threads write is
/// kept two lines apart, so that a write does not take away the line that another thread is spinning on.
inline constexpr std::size_t kLinePair = 128;

/// The time that a wait spins before it sleeps. A futex wake-up takes 5 to 50 µs (the upper end in virtual
/// machines), so spinning much longer gains nothing and would starve other threads of the CPU.
inline constexpr Nanoseconds kSpinNs = 30'000;

/// A 32-bit value for the threads of one process. A thread that waited for a change also sees everything that
/// was written before the change.
class alignas(kLinePair) WaitableCounter {
 public:
  /// Sets the value without waking a thread. Precondition: no thread waits.
  void set(std::uint32_t value) { value_.store(value, std::memory_order_relaxed); }
  std::uint32_t value() const { return value_.load(std::memory_order_acquire); }

  /// Adds one and wakes every waiter.
  void raise();
  /// Subtracts one, and wakes every waiter if the value became zero.
  void lower();

  /// Waits while the value is `old`: spins for `spin_ns` (0: not at all), then sleeps. Returns the first
  /// other value that it sees.
  std::uint32_t wait_while(std::uint32_t old, Nanoseconds spin_ns = kSpinNs) const;
  /// Waits in the same way until the value is zero.
  void wait_for_zero(Nanoseconds spin_ns = kSpinNs) const;

 private:
  void sleep_while(std::uint32_t old) const;
  void wake() const;

  std::atomic<std::uint32_t> value_{0};
  // Counts the sleepers, so that raise() and lower() make no system call when no thread sleeps. It shares the
  // value's line: both are written rarely, and always close together.
  mutable std::atomic<std::uint32_t> sleepers_{0};
};

}  // namespace zf
