// A barrier in shared memory that keeps processes in step and notices when one of them fails.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

#include "base/clock.hpp"

namespace zf {

/// Lives in memory that all parties share, which must be zeroed before begin(). No party waits for one that
/// failed. A round has two phases and ends with the second one.
class ProcessBarrier {
 public:
  static constexpr std::uint32_t kPhases = 2;

  /// Sets the number of parties and of rounds. Call it once, before any party meets or arrives. After
  /// `min_rounds`, the round that ends after `deadline_ns` (of now_ns()) is the last one; `rounds` is the
  /// most there can be.
  void begin(std::uint32_t parties, std::uint32_t rounds, std::uint32_t min_rounds, Nanoseconds deadline_ns);

  /// Waits until all parties have called this. Either each party calls it once, before its first arrive(), or
  /// none does. Returns false if a party failed.
  bool meet();

  /// Waits until all parties have arrived, which ends a phase; the first call begins the first phase. Returns
  /// the same to all: true to go on, false if the last round is over or a party failed.
  bool arrive();

  /// Makes the present round the last one. Any party may call it between two arrivals.
  void end_after_this_round() { last_round_.store(1, std::memory_order_release); }

  /// Makes all parties give up. Keeps the text of the first failure, cut to what fits.
  void fail(std::string_view why);
  bool has_failed() const { return failed_.load(std::memory_order_acquire) != 0; }
  /// Returns the text of the first failure, or "" if none failed.
  std::string_view why() const { return {first_failure_.data()}; }

 private:
  std::uint32_t parties_;
  std::uint32_t rounds_;
  std::uint32_t min_rounds_;
  Nanoseconds deadline_ns_;
  std::atomic<std::uint32_t> met_;  ///< number of parties in meet(); waiters sleep on it
  std::atomic<std::uint32_t> arrived_;
  std::atomic<std::uint32_t> phases_passed_;  ///< number of phases that ended; waiters sleep on it
  std::atomic<std::uint32_t> last_round_;     ///< 1 if the present round is the last one
  std::atomic<std::uint32_t> finished_;       ///< 1 if the last round is over
  std::atomic<std::uint32_t> failed_;
  std::atomic<std::uint32_t> failure_claimed_;  ///< 1 once a party writes first_failure_
  std::array<char, 400> first_failure_;
};

static_assert(std::atomic<std::uint32_t>::is_always_lock_free, "shared between processes");

}  // namespace zf
