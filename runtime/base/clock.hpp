// Monotonic time in nanoseconds.
#pragma once

#include <chrono>
#include <cstdint>

namespace zf {

/// A duration or a point of the steady clock, in nanoseconds.
using Nanoseconds = std::int64_t;

inline constexpr Nanoseconds kSecondNs = 1'000'000'000;
inline constexpr Nanoseconds kMillisecondNs = 1'000'000;

inline Nanoseconds now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace zf
