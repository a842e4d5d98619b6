#include "abi/freeing.hpp"

#include <pthread.h>

#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "abi/background.hpp"
#include "base/signals_blocked.hpp"

namespace zf {
namespace {

/// Freeing less than this takes some 0.05 s at most (pages of 4 KiB, a virtual machine on an AMD EPYC, Zen
/// 4).
constexpr std::uint64_t kLargeBytes = std::uint64_t{256} << 20;

/// The threads that free memory.
class FreeingThreads {
 public:
  FreeingThreads() = default;
  FreeingThreads(const FreeingThreads&) = delete;
  FreeingThreads& operator=(const FreeingThreads&) = delete;

  /// Takes the arena and starts a thread that ends it. Leaves it to the caller after end(). If no thread can
  /// be started, the arena is ended here.
  void take(Arena& arena) {
    const std::lock_guard lock(mutex_);
    if (has_ended_) return;
    const SignalsBlocked blocked;  // the program's signal handlers run on its own threads
    try {
      threads_.emplace_back([arena = std::move(arena)]() mutable {
        pthread_setname_np(pthread_self(), "zf-free");
        const Arena ending = std::move(arena);
      });
    } catch (const std::exception&) {
      // There is no thread or no memory. The function object, and the arena with it, ended before this line.
    }
  }

  /// Returns when all threads have ended that were started before this call, also if another thread waits for
  /// them.
  void join_all() {
    const std::lock_guard joining(joining_mutex_);
    std::vector<std::thread> ending;
    {
      const std::lock_guard lock(mutex_);
      ending.swap(threads_);
    }
    for (std::thread& thread : ending) thread.join();
  }

  /// Joins all threads. From now on no thread is started.
  void end() {
    {
      const std::lock_guard lock(mutex_);
      has_ended_ = true;
    }
    join_all();
  }

 private:
  std::mutex joining_mutex_;  ///< held while threads are joined; locked before mutex_
  std::mutex mutex_;          ///< protects what follows; never held for long
  std::vector<std::thread> threads_;
  bool has_ended_ = false;
};

}  // namespace

FreedInBackground::~FreedInBackground() {
  if (arena_.bytes() < kLargeBytes) return;
  if (!arena_.keep_from_children()) return;
  if (auto* const threads = background<FreeingThreads>()) threads->take(arena_);
}

void await_freed() {
  if (auto* const threads = background<FreeingThreads>()) threads->join_all();
}

}  // namespace zf
