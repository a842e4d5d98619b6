// Threads that sleep, to find out whether the system grants that many.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <thread>
#include <vector>

namespace zf {

/// Starts threads that sleep until this object ends. No other thread of this process may be started before
/// the destructor returns: it could get the id of one that ended, and the destructor would wait for it.
class HeldThreads {
 public:
  /// Throws std::system_error if one of `count` threads is refused. None is left then.
  explicit HeldThreads(std::size_t count);
  /// Returns once the system no longer counts any of them, so that as many others can be started. If one is
  /// still counted after 10 s, returns all the same. (Linux before 5.2 may count a thread in pids.max for a
  /// moment longer than it can be found.)
  ~HeldThreads();
  HeldThreads(const HeldThreads&) = delete;
  HeldThreads& operator=(const HeldThreads&) = delete;

 private:
  void hold();
  void end();

  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::vector<pid_t> ids_;
  std::vector<std::thread> threads_;
};

}  // namespace zf
