#include "abi/reaping.hpp"

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <list>
#include <mutex>
#include <thread>
#include <utility>

#include "abi/background.hpp"
#include "base/signals_blocked.hpp"

namespace zf {
namespace {

constexpr std::chrono::milliseconds kPause{100};

/// The killed children that are still there, and the thread that waits for them.
class Reaper {
 public:
  Reaper() = default;
  Reaper(const Reaper&) = delete;
  Reaper& operator=(const Reaper&) = delete;

  void take(Child& child) noexcept {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    try {
      children_.push_back(std::move(child));
      const SignalsBlocked blocked;  // the program's signal handlers run on its own threads
      if (!thread_.joinable()) thread_ = std::thread([this] { reap(); });
    } catch (const std::exception&) {
      // There is no thread, or no memory. The next child tries it again, and this one is a zombie until then.
    }
    changed_.notify_all();
  }

  void end() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

 private:
  void reap() noexcept {
    pthread_setname_np(pthread_self(), "zf-reap");
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      children_.remove_if([](Child& child) { return is_over(child); });
      if (children_.empty()) {
        changed_.wait(lock, [this] { return stopping_ || !children_.empty(); });
      } else {
        // Waits by the system clock, which may be set: a wait by the monotonic clock needs glibc 2.30.
        changed_.wait_until(lock, std::chrono::system_clock::now() + kPause, [this] { return stopping_; });
      }
    }
  }

  static bool is_over(Child& child) {
    try {
      return child.end_by(0);
    } catch (const Error&) {
      return true;  // another part of the program closed its pidfd: it cannot be reached any more
    }
  }

  std::mutex mutex_;  ///< protects what follows
  std::condition_variable changed_;
  std::list<Child> children_;
  std::thread thread_;
  bool stopping_ = false;
};

}  // namespace

void reap_later(Child child) noexcept {
  try {
    if (auto* const reaper = background<Reaper>()) reaper->take(child);
  } catch (const std::exception&) {
    // There is no memory for the reaper itself.
  }
  child.discard(0);  // does nothing if it was taken; else no thread waits for it
}

}  // namespace zf
