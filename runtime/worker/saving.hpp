// Copies the state of groups to the saved area of the arena: each member copies its units of the image.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ipc/arena.hpp"

namespace zf {

class Saving {
 public:
  explicit Saving(const Arena& arena) : arena_(arena) {}

  /// Copies the member's units of a group, and gives the copy pages first, by the memory policy of the
  /// calling thread. Before each unit it waits until the trainer has read what lies in its place. A successor
  /// of a worker that has died copies only what that one has not. If memory runs out, this says so in the
  /// control block, and from then on nothing is copied.
  void copy(std::uint32_t group, std::size_t member) const noexcept;
  /// Is called by a successor of a worker that died with a save under way. The kernel may have killed that
  /// one because memory ran out for the copy, so the third successor copies nothing.
  void resume() const;
  /// Notes which step of the group the copy has. Call it after all members have called copy().
  void note_step(std::uint32_t group) const;

 private:
  /// Returns false if the save is given up.
  bool await_room(std::uint64_t end) const noexcept;
  void copy_part(const GroupBlock& block, std::uint64_t begin, std::uint64_t end) const;

  const Arena& arena_;
};

}  // namespace zf
