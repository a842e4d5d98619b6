#include "ipc/doorbell.hpp"

namespace zf {

void Doorbell::init() { sleepers_.store(0, std::memory_order_seq_cst); }

void Doorbell::wake() { futex_wake_all(sleepers_, FutexScope::shared); }

bool Doorbell::sleep_until(Nanoseconds deadline) {
  // A futex waits by the monotonic clock, as now_ns() does. sem_timedwait would follow a clock that can be
  // set, and sem_clockwait needs glibc 2.30. A ring that came first has set the word to 0, and the wait
  // ends at once.
  const Nanoseconds left = deadline - now_ns();
  if (left <= 0) return false;
  futex_wait(sleepers_, 1, FutexScope::shared, left);
  return true;
}

}  // namespace zf
