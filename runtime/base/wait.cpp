#include "base/wait.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace zf {
namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t), "a futex is four plain bytes");

int operation_of(int operation, FutexScope scope) {
  return scope == FutexScope::process ? operation | FUTEX_PRIVATE_FLAG : operation;
}

}  // namespace

void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t value, FutexScope scope,
                std::optional<Nanoseconds> timeout) {
  timespec time = {};
  if (timeout) {
    time.tv_sec = static_cast<std::time_t>(*timeout / kSecondNs);
    time.tv_nsec = static_cast<long>(*timeout % kSecondNs);
  }
  // The result is not needed: the caller checks the word again.
  ::syscall(SYS_futex, &word, operation_of(FUTEX_WAIT, scope), value, timeout ? &time : nullptr, nullptr, 0);
}

void futex_wake_all(const std::atomic<std::uint32_t>& word, FutexScope scope) {
  ::syscall(SYS_futex, &word, operation_of(FUTEX_WAKE, scope), INT_MAX, nullptr, nullptr, 0);
}

}  // namespace zf
