#include "measure/process_barrier.hpp"

#include <algorithm>

#include "base/wait.hpp"

namespace zf {
namespace {

/// The time that a party sleeps before it checks again whether another one failed.
constexpr Nanoseconds kPollNs = 100 * kMillisecondNs;

}  // namespace

void ProcessBarrier::begin(std::uint32_t parties, std::uint32_t rounds, std::uint32_t min_rounds,
                           Nanoseconds deadline_ns) {
  parties_ = parties;
  rounds_ = rounds;
  min_rounds_ = min_rounds;
  deadline_ns_ = deadline_ns;
}

bool ProcessBarrier::meet() {
  std::uint32_t met = met_.fetch_add(1, std::memory_order_acq_rel) + 1;
  if (met == parties_) futex_wake_all(met_, FutexScope::shared);
  while (met < parties_ && !has_failed()) {
    futex_wait(met_, met, FutexScope::shared, kPollNs);
    met = met_.load(std::memory_order_acquire);
  }
  return !has_failed();
}

bool ProcessBarrier::arrive() {
  const std::uint32_t passed = phases_passed_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == parties_) {
    const std::uint32_t rounds = passed / kPhases;
    const bool whole = passed % kPhases == 0;
    const bool late = rounds >= min_rounds_ && now_ns() > deadline_ns_;
    if (whole && (rounds >= rounds_ || late || last_round_.load(std::memory_order_acquire) != 0))
      finished_.store(1, std::memory_order_relaxed);
    arrived_.store(0, std::memory_order_relaxed);
    phases_passed_.store(passed + 1, std::memory_order_release);
    futex_wake_all(phases_passed_, FutexScope::shared);
  } else {
    while (phases_passed_.load(std::memory_order_acquire) == passed && !has_failed()) {
      futex_wait(phases_passed_, passed, FutexScope::shared, kPollNs);
    }
  }
  return !has_failed() && finished_.load(std::memory_order_relaxed) == 0;
}

void ProcessBarrier::fail(std::string_view why) {
  if (failure_claimed_.exchange(1, std::memory_order_acq_rel) == 0) {
    const std::size_t length = std::min(why.size(), first_failure_.size() - 1);
    std::copy_n(why.begin(), length, first_failure_.begin());
  }
  failed_.store(1, std::memory_order_release);
  for (const auto* word : {&met_, &phases_passed_}) futex_wake_all(*word, FutexScope::shared);
}

}  // namespace zf
