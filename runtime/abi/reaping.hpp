// Reaps optimizers that outlive SIGKILL: one that is frozen (a cgroup's freezer, a driver), or that a
// debugger holds.
#pragma once

#include "ipc/child.hpp"

namespace zf {

/// Takes over a child that was killed and is still there. A thread of its own reaps it when it has ended, so
/// that it stays no zombie. That thread ends with the program, or before this library is unloaded. Where none
/// can be started, the child stays a zombie until the next call, or for good if there is no memory. Never
/// waits.
void reap_later(Child child) noexcept;

}  // namespace zf
