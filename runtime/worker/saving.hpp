// Copies the state of groups to the saved area of the arena: each member copies its parts.
#pragma once

#include <cstdint>

#include "engine/slices.hpp"
#include "ipc/arena.hpp"

namespace zf {

class Saving {
 public:
  explicit Saving(const Arena& arena) : arena_(arena) {}

  /// Copies a slice of a group, and gives the copy pages first, by the memory policy of the calling thread.
  /// If memory runs out, it says so in the control block, and from then on nothing is copied. Thread-safe.
  void copy(std::uint32_t group, const Slice& slice) const noexcept;
  /// Is called by a successor of a worker that died with a save under way. The kernel may have killed that
  /// one because memory ran out for the copy, so the third successor copies nothing.
  void resume() const;
  /// Notes which step of the group the copy has. Call it after all members have called copy().
  void note_step(std::uint32_t group) const;

 private:
  const Arena& arena_;
};

}  // namespace zf
