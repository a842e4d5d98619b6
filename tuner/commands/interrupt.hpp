// SIGINT and SIGTERM as a question that can be asked, while one of these lives.
#pragma once

#include <csignal>

namespace zf {

/// Catches the first SIGINT or SIGTERM; a second one ends the process as usual. One at a time in a process,
/// on the main thread. Restores the old handlers.
class InterruptWatch {
 public:
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  /// The signal that came, 0: none.
  int signal() const;

 private:
  struct sigaction old_int_ = {};
  struct sigaction old_term_ = {};
};

}  // namespace zf
