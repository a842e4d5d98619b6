// Copies the state of groups to the saved area of the arena: each member copies its units of the image while
// no step waits, and what it steps itself in a step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "engine/isa.hpp"
#include "engine/slices.hpp"
#include "engine/streaming.hpp"
#include "ipc/arena.hpp"

namespace zf {

class Saving {
 public:
  Saving(const Arena& arena, Isa isa) : arena_(arena), stream_(stream_kernel(isa)) {}

  /// Returns how much of the saved area a worker that starts has to place: the room that was asked for at
  /// zf_open or, for a successor of one that was ready, what has pages. The trainer may change that
  /// meanwhile: call it once. Later rooms get their pages when they are filled, because memory may be too
  /// short for them.
  std::uint64_t room_to_place(bool is_reserved) const;
  /// Gives pages to a member's units of that room, by the memory policy of the calling thread, or maps those
  /// that are there. Throws Error(runtime_error) if memory runs out.
  void place_memory(std::size_t member, std::uint64_t room, bool is_reserved) const;
  /// Call it after all members have given pages to the room.
  void note_placed(std::uint64_t room) const;

  /// Copies the member's units of a group. Returns false if it stopped before a unit because of gives_way():
  /// then call it for no later group. Before each unit it waits until the trainer has read what lies in its
  /// place. A successor of a worker that has died copies only what that one has not. If memory runs out, this
  /// says so in the control block, and from then on nothing is copied.
  bool copy(std::uint32_t group, std::size_t member, const std::function<bool()>& gives_way) const noexcept;
  /// Returns whether nothing of a group is left to copy. Call it when no member copies.
  bool is_over(std::uint32_t group) const;

  /// Returns whether a step may join the save before it: there is room for all, or the save is given up.
  /// Until they are done that stays true, so that a successor's first batch has all that a worker began.
  bool may_join() const;
  /// Begins and ends a group's copy by its step. Call them before and after all members.
  void begin_step(std::uint32_t group) const;
  void end_step(std::uint32_t group) const;
  /// Returns whether elements of the group must be copied before they are stepped.
  bool is_by_step(std::uint32_t group) const;
  /// Gives pages to the copy of elements, if it has none.
  void reserve(std::uint32_t group, const Slice& elements) const noexcept;
  /// Copies elements that are not copied yet, and some that are.
  void copy_elements(std::uint32_t group, const Slice& elements) const noexcept;

  /// Is called by a successor of a worker that died with a save under way. The kernel may have killed that
  /// one because memory ran out for the copy, so the third successor copies nothing.
  void resume() const;
  /// Notes which step of the group, the last group of all in the end, the copy has: that with this serial,
  /// of the last two.
  void note_step(std::uint32_t group, std::uint64_t serial) const;

 private:
  /// Returns false if the save is given up.
  bool await_room(std::uint64_t end) const noexcept;
  bool is_given_up() const;
  bool is_reserved() const;
  /// Copies bytes of the image, which belong to one group.
  void copy_part(const GroupBlock& block, std::uint64_t begin, std::uint64_t end) const noexcept;
  /// Copies bytes of the image, of one array.
  void copy_array(const GroupBlock& block, ArrayKind kind, std::uint64_t array_begin, std::uint64_t begin,
                  std::uint64_t end) const noexcept;

  const Arena& arena_;
  StreamKernel stream_;
};

}  // namespace zf
