#include "engine/gate.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

namespace zf {
namespace {

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t), "a futex is four plain bytes");

void futex(const std::atomic<std::uint32_t>& word, int operation, std::uint32_t value) {
  // The answer is not needed: a wait that returns early (changed value, signal) is looked at again, and a
  // wake has nothing to report.
  ::syscall(SYS_futex, &word, operation | FUTEX_PRIVATE_FLAG, value, nullptr, nullptr, 0);
}

/// Spins for kSpinNs at most; true once `done` is.
template <class Done>
bool spin(Done done) {
  if (done()) return true;
  const Nanoseconds deadline = now_ns() + kSpinNs;
  do {
    for (int i = 0; i < 16; ++i) {  // the clock costs as much as one pause
      pause();
      if (done()) return true;
    }
  } while (now_ns() < deadline);
  return false;
}

}  // namespace

// No wake-up is lost, since all four accesses are sequentially consistent: a sleeper first counts itself,
// then reads the value (inside the kernel, under the futex's lock); a changer first writes the value, then
// reads the count. One of the two sees the other.

void Gate::raise() {
  value_.fetch_add(1, std::memory_order_seq_cst);
  wake();
}

void Gate::lower() {
  if (value_.fetch_sub(1, std::memory_order_seq_cst) == 1) wake();
}

void Gate::wake() const {
  if (sleepers_.load(std::memory_order_seq_cst) != 0) futex(value_, FUTEX_WAKE, INT_MAX);
}

void Gate::sleep_while(std::uint32_t old) const {
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  if (value_.load(std::memory_order_seq_cst) == old) futex(value_, FUTEX_WAIT, old);
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

std::uint32_t Gate::wait_while(std::uint32_t old) const {
  std::uint32_t now = old;
  const auto changed = [&] { return (now = value()) != old; };
  if (!spin(changed)) {
    while (!changed()) sleep_while(old);
  }
  return now;
}

void Gate::wait_for_zero() const {
  if (spin([&] { return value() == 0; })) return;
  for (std::uint32_t left = value(); left != 0; left = value()) sleep_while(left);
}

}  // namespace zf
