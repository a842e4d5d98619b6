#include "measure/held_threads.hpp"

#include <unistd.h>
#include <csignal>

#include "base/clock.hpp"

namespace zf {

HeldThreads::HeldThreads(std::size_t count) {
  threads_.reserve(count);
  ids_.reserve(count);
  try {
    while (threads_.size() < count) threads_.emplace_back([this] { hold(); });
  } catch (...) {
    end();
    throw;
  }
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return ids_.size() == count; });
}

HeldThreads::~HeldThreads() { end(); }

void HeldThreads::hold() {
  std::unique_lock lock(mutex_);
  ids_.push_back(::gettid());
  changed_.notify_all();
  changed_.wait(lock, [this] { return over_; });
}

void HeldThreads::end() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  // join() can return before the kernel has taken the thread off its counts. Until then tgkill() finds it.
  const Nanoseconds limit = now_ns() + 10 * kSecondNs;
  for (const pid_t id : ids_) {
    while (::tgkill(::getpid(), id, 0) == 0 && now_ns() < limit) ::usleep(50);
  }
}

}  // namespace zf
