#include "abi/freeing.hpp"

#include <pthread.h>
#include <unistd.h>

#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/signals_blocked.hpp"

namespace zf {
namespace {

/// Freeing less than this takes some 0.05 s at most (pages of 4 KiB, a virtual machine on an AMD EPYC, Zen
/// 4).
constexpr std::uint64_t kLargeBytes = std::uint64_t{256} << 20;

/// The threads that free memory. A forked child has copies of these objects, but not the threads, so there
/// all functions do nothing.
class FreeingThreads {
 public:
  FreeingThreads() = default;
  FreeingThreads(const FreeingThreads&) = delete;
  FreeingThreads& operator=(const FreeingThreads&) = delete;

  /// Takes the arena and starts a thread that ends it. Leaves it to the caller in a forked child and after
  /// end(). If no thread can be started, the arena is ended here.
  void take(Arena& arena) {
    if (!is_owner()) return;
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

  /// Returns when all threads have ended that were started before this call, whoever else waits for them.
  void join_all() {
    if (!is_owner()) return;
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
    if (!is_owner()) return;
    {
      const std::lock_guard lock(mutex_);
      has_ended_ = true;
    }
    join_all();
  }

 private:
  bool is_owner() const { return getpid() == owner_; }

  const pid_t owner_ = getpid();
  std::mutex joining_mutex_;  ///< held while threads are joined; locked before mutex_
  std::mutex mutex_;          ///< protects what follows; never held for long
  std::vector<std::thread> threads_;
  bool has_ended_ = false;
};

/// Ends the threads when the program ends, or before the library is unloaded.
struct EndsThreads {
  explicit EndsThreads(FreeingThreads& all_threads) : threads(all_threads) {}
  ~EndsThreads() { threads.end(); }
  EndsThreads(const EndsThreads&) = delete;
  EndsThreads& operator=(const EndsThreads&) = delete;

  FreeingThreads& threads;
};

/// Returns the only object. It is never destroyed: a handle may be closed by a destructor that runs after
/// those of this library, and the end of a forked child must not destroy threads that are joined nowhere.
FreeingThreads& freeing_threads() {
  static auto* const all = new FreeingThreads;
  static const EndsThreads at_exit(*all);
  return *all;
}

}  // namespace

FreedInBackground::~FreedInBackground() {
  if (arena_.bytes() < kLargeBytes) return;
  if (arena_.keep_from_children()) freeing_threads().take(arena_);
}

void await_freed() { freeing_threads().join_all(); }

}  // namespace zf
