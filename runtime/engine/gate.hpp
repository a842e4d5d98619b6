// A counter that threads wait on: a bounded spin for the common short wait, then a futex for the long one.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/clock.hpp"

namespace zf {

/// Cores fetch lines of 64 bytes, and Intel's L2 fetches them in pairs: what different threads write is kept
/// two lines apart, so that a write does not take away what another thread is spinning on.
inline constexpr std::size_t kLinePair = 128;

/// How long a wait spins before it sleeps. A futex wake-up takes 5 to 50 µs (the upper end in virtual
/// machines), so spinning much longer buys nothing and would starve whoever shares the CPU.
inline constexpr Nanoseconds kSpinNs = 30'000;

/// A 32-bit value in one process. Everything written before a change is seen by whoever waited for it.
class alignas(kLinePair) Gate {
 public:
  /// Preset while nobody waits, not an event.
  void set(std::uint32_t value) { value_.store(value, std::memory_order_relaxed); }
  std::uint32_t value() const { return value_.load(std::memory_order_acquire); }

  /// Adds one and wakes every waiter.
  void raise();
  /// Subtracts one; wakes every waiter when that made it zero.
  void lower();

  /// Returns the first value seen that is not `old`.
  std::uint32_t wait_while(std::uint32_t old) const;
  void wait_for_zero() const;

 private:
  void sleep_while(std::uint32_t old) const;
  void wake() const;

  std::atomic<std::uint32_t> value_{0};
  // Who sleeps, so that raise() and lower() save the system call when nobody does. On the same line as the
  // value: both are written rarely, and always close together.
  mutable std::atomic<std::uint32_t> sleepers_{0};
};

}  // namespace zf
