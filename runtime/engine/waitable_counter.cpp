#include "engine/waitable_counter.hpp"

#include "base/wait.hpp"

namespace zf {

// No wake-up is lost, because all four accesses are sequentially consistent. A sleeper first counts itself
// and then reads the value (inside the kernel, under the futex's lock). A changer first writes the value and
// then reads the count. So at least one of the two sees the other.

void WaitableCounter::raise() {
  value_.fetch_add(1, std::memory_order_seq_cst);
  wake();
}

void WaitableCounter::lower() {
  if (value_.fetch_sub(1, std::memory_order_seq_cst) == 1) wake();
}

void WaitableCounter::wake() const {
  if (sleepers_.load(std::memory_order_seq_cst) != 0) futex_wake_all(value_, FutexScope::process);
}

void WaitableCounter::sleep_while(std::uint32_t old) const {
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  if (value_.load(std::memory_order_seq_cst) == old) futex_wait(value_, old, FutexScope::process);
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

std::uint32_t WaitableCounter::wait_while(std::uint32_t old, Nanoseconds spin_ns) const {
  std::uint32_t now = old;
  const auto changed = [&] { return (now = value()) != old; };
  if (changed() || (spin_ns > 0 && spin_until(changed, now_ns() + spin_ns))) return now;
  while (!changed()) sleep_while(old);
  return now;
}

void WaitableCounter::wait_for_zero(Nanoseconds spin_ns) const {
  const auto is_zero = [this] { return value() == 0; };
  if (is_zero() || (spin_ns > 0 && spin_until(is_zero, now_ns() + spin_ns))) return;
  for (std::uint32_t left = value(); left != 0; left = value()) sleep_while(left);
}

}  // namespace zf
