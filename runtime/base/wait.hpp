// The two halves of a short wait: a bounded spin, then a futex.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "base/clock.hpp"

namespace zf {

/// Tells the CPU that this is a spin loop. That saves power and leaves the core to its SMT sibling.
inline void relax_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Spins until done() is true. Returns false at the deadline (a point of now_ns()).
template <class Done>
bool spin_until(Done done, Nanoseconds deadline) {
  do {
    // 16 checks per reading of the clock: one reading costs as much as several pauses.
    for (int i = 0; i < 16; ++i) {
      relax_cpu();
      if (done()) return true;
    }
  } while (now_ns() < deadline);
  return false;
}

/// The threads that share a futex: those of one process, or also those of other processes that map its
/// memory.
enum class FutexScope { process, shared };

/// Sleeps until the word is woken. Returns at once if the word is not `value`, and also after `timeout` or a
/// signal: the caller checks the word again.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t value, FutexScope scope,
                std::optional<Nanoseconds> timeout = std::nullopt);

/// Wakes every thread that sleeps on the word.
void futex_wake_all(const std::atomic<std::uint32_t>& word, FutexScope scope);

}  // namespace zf
