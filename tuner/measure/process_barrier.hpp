// Processes that do the same things at the same time: a barrier in shared memory that notices a failure.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

#include "base/clock.hpp"

namespace zf {

/// Lies in memory that all parties share; zeroed memory and then begin(). No party waits for one that failed.
/// A round has two phases, and ends with its second.
class ProcessBarrier {
 public:
  static constexpr std::uint32_t kPhases = 2;

  /// Once, before any party arrives: how many there are, how many rounds they go at the most, and the point
  /// of now_ns() after which a round that is over is the last, once `min_rounds` have been gone.
  void begin(std::uint32_t parties, std::uint32_t rounds, std::uint32_t min_rounds, Nanoseconds deadline_ns);

  /// Waits until all parties are here, which ends a phase (the first call begins the first). All get the same
  /// answer: true, go on; false, the last round is over, or some party failed.
  bool arrive();

  /// A party gives up, and so do all. The first one's text is kept, cut to what fits.
  void fail(std::string_view why);
  bool has_failed() const { return failed_.load(std::memory_order_acquire) != 0; }
  /// "" if nobody failed.
  std::string_view why() const { return {first_failure_.data()}; }

 private:
  void wake_all();

  std::uint32_t parties_;
  std::uint32_t rounds_;
  std::uint32_t min_rounds_;
  Nanoseconds deadline_ns_;
  std::atomic<std::uint32_t> arrived_;
  std::atomic<std::uint32_t> phases_passed_;  ///< how often all were here; what waiters sleep on
  std::atomic<std::uint32_t> finished_;       ///< 1: the last round is over
  std::atomic<std::uint32_t> failed_;
  std::atomic<std::uint32_t> failure_claimed_;  ///< 1: someone writes first_failure_
  std::array<char, 400> first_failure_;
};

static_assert(std::atomic<std::uint32_t>::is_always_lock_free, "shared between processes");

}  // namespace zf
