#include "ipc/doorbell.hpp"

#include <cassert>
#include <cerrno>
#include <ctime>

#include "base/error.hpp"

namespace zf {

void Doorbell::init() {
  sleepers_.store(0, std::memory_order_seq_cst);
  checked(sem_init(&semaphore_, /*pshared=*/1, 0), "sem_init");
}

void Doorbell::wake() {
  // EOVERFLOW would need 2^31 pending posts, and every announced sleep allows only one.
  const int posted = sem_post(&semaphore_);
  assert(posted == 0);
}

bool Doorbell::sleep_until(Nanoseconds deadline) {
  // Uses the monotonic clock, as now_ns() does. sem_timedwait would follow a clock that someone may set.
  timespec until = {};
  until.tv_sec = static_cast<std::time_t>(deadline / kSecondNs);
  until.tv_nsec = static_cast<long>(deadline % kSecondNs);
  if (sem_clockwait(&semaphore_, CLOCK_MONOTONIC, &until) == 0 || errno == EINTR) return true;
  assert(errno == ETIMEDOUT);
  return false;
}

}  // namespace zf
