#include "freeing.hpp"

#include <pthread.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/signals_blocked.hpp"

namespace zf {
namespace {

/// Freeing less than this takes 0.05 s at most.
constexpr std::uint64_t kLargeBytes = std::uint64_t{256} << 20;

/// The threads that free memory. They are joined before the library is unloaded. A forked child has copies of
/// these objects, but not the threads, so there all functions do nothing.
class FreeingThreads {
 public:
  FreeingThreads() = default;
  ~FreeingThreads() { join_all(); }
  FreeingThreads(const FreeingThreads&) = delete;
  FreeingThreads& operator=(const FreeingThreads&) = delete;

  /// Starts a thread that ends the arena. If that fails, the arena is ended here.
  void take(std::unique_ptr<Arena> arena) {
    if (!is_owner()) return;
    const std::lock_guard lock(mutex_);
    const SignalsBlocked blocked;  // the program's signal handlers run on its own threads
    try {
      threads_->emplace_back([arena = std::move(arena)]() mutable {
        pthread_setname_np(pthread_self(), "zf-free");
        arena.reset();
      });
    } catch (const std::system_error&) {
      // The function object, and the arena with it, ended before this line.
    }
  }

  void join_all() {
    if (!is_owner()) return;
    std::vector<std::thread> ending;
    {
      const std::lock_guard lock(mutex_);
      ending.swap(*threads_);
    }
    for (std::thread& thread : ending) thread.join();
  }

 private:
  bool is_owner() const { return getpid() == owner_; }

  const pid_t owner_ = getpid();
  std::mutex mutex_;
  /// Never destroyed: the end of a child must not destroy threads that are joined nowhere.
  std::vector<std::thread>* const threads_ = new std::vector<std::thread>;
};

FreeingThreads& freeing_threads() {
  static FreeingThreads all;
  return all;
}

}  // namespace

FreedInBackground::~FreedInBackground() {
  if (arena_.bytes() < kLargeBytes) return;
  arena_.keep_from_children();
  freeing_threads().take(std::make_unique<Arena>(std::move(arena_)));
}

void await_freed() { freeing_threads().join_all(); }

}  // namespace zf
