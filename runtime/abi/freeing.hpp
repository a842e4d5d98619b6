// Gives the memory of closed handles back in the background.
#pragma once

#include <utility>

#include "ipc/arena.hpp"

namespace zf {

/// Owns the arena of a handle. Freeing many small pages takes the kernel long (docs/runtime.md). The
/// destructor therefore leaves a large arena to a thread, and returns at once; children that are forked from
/// then on do not get it. It frees a small arena itself. It also frees a large one itself in a forked child,
/// when the program ends, if no thread can be started, or if children cannot be kept from getting it.
class FreedInBackground {
 public:
  explicit FreedInBackground(Arena arena) : arena_(std::move(arena)) {}
  ~FreedInBackground();
  FreedInBackground(const FreedInBackground&) = delete;
  FreedInBackground& operator=(const FreedInBackground&) = delete;

  const Arena& arena() const { return arena_; }

 private:
  Arena arena_;
};

/// Waits until everything that was left to threads is free. Several threads may wait at once. Call it before
/// memory is asked for.
void await_freed();

}  // namespace zf
