// Turns SIGINT, SIGTERM and SIGHUP into a value that a loop can poll.
#pragma once

#include <array>
#include <csignal>

namespace zf {

/// Catches the first SIGINT, SIGTERM or SIGHUP (the terminal is gone) while this object lives. A second one
/// of the same kind ends the process as usual. A signal that is ignored, as under nohup, stays ignored. At
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
  static constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, kSignals.size()> old_ = {};
};

}  // namespace zf
