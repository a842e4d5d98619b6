// Ends the processes that a command leaves behind.
#pragma once

#include "base/clock.hpp"

namespace zf {

/// While this object lives, each descendant of this process that loses its parent becomes a child of this
/// process (PR_SET_CHILD_SUBREAPER, prctl(2)). Make it in the thread that starts the command. Precondition:
/// this process has no other children meanwhile.
class Orphans {
 public:
  Orphans();
  ~Orphans();
  Orphans(const Orphans&) = delete;
  Orphans& operator=(const Orphans&) = delete;

  /// Sends SIGTERM to all children, SIGKILL to those that are still there after `patience`, and reaps them.
  /// Gives up after twice that time. Does nothing on a kernel that does not list children
  /// (/proc/self/task/N/children).
  static void end(Nanoseconds patience);
};

}  // namespace zf
