#include "measure/process_barrier.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>

namespace zf {
namespace {

/// A futex of several processes. Returns at once when `word` is not `value`, at the latest after 0.1 s.
void sleep_on(const std::atomic<std::uint32_t>& word, std::uint32_t value) {
  const timespec tenth{0, 100'000'000};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, value, &tenth, nullptr, 0);
}

}  // namespace

void Lockstep::begin(std::uint32_t parties, std::uint32_t rounds, std::uint32_t least_rounds,
                     Nanoseconds deadline_ns) {
  parties_ = parties;
  rounds_ = rounds;
  least_rounds_ = least_rounds;
  deadline_ns_ = deadline_ns;
}

bool Lockstep::arrive() {
  const std::uint32_t passed = passed_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == parties_) {
    const std::uint32_t rounds = passed / kPhases;
    const bool whole = passed % kPhases == 0;
    if (whole && (rounds >= rounds_ || (rounds >= least_rounds_ && now_ns() > deadline_ns_)))
      over_.store(1, std::memory_order_relaxed);
    arrived_.store(0, std::memory_order_relaxed);
    passed_.store(passed + 1, std::memory_order_release);
    wake_all();
  } else {
    while (passed_.load(std::memory_order_acquire) == passed && !has_failed()) sleep_on(passed_, passed);
  }
  return !has_failed() && over_.load(std::memory_order_relaxed) == 0;
}

void Lockstep::fail(std::string_view why) {
  if (telling_.exchange(1, std::memory_order_acq_rel) == 0) {
    const std::size_t length = std::min(why.size(), why_.size() - 1);
    std::copy_n(why.begin(), length, why_.begin());
  }
  failed_.store(1, std::memory_order_release);
  wake_all();
}

void Lockstep::wake_all() { ::syscall(SYS_futex, &passed_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }

}  // namespace zf
