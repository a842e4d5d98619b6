// Turns SIGINT and SIGTERM into a value that a loop can poll.
#pragma once

#include <csignal>

namespace zf {

/// Catches the first SIGINT or SIGTERM while this object lives. A second one ends the process as usual. At
/// most one of these may live in a process, made on the main thread. The destructor restores the old
/// handlers.
class InterruptWatch {
 public:
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  /// Returns the signal that came, or 0 if none came.
  int signal() const;

 private:
  struct sigaction old_int_ = {};
  struct sigaction old_term_ = {};
};

}  // namespace zf
