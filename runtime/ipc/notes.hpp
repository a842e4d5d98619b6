// What the trainer notes with a step, so that its successor knows where to go on: two places, used in turn.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace zf {

class Arena;

/// A place for a note. Its bytes follow. Written by the trainer.
struct alignas(64) Note {
  /// The number of WorkEntries submitted with the note's step and before; 0: there is no note here. The note
  /// counts once ControlBlock::submitted has reached it.
  std::atomic<std::uint64_t> ticket;
  std::uint64_t step;  ///< the number of its step

  std::byte* bytes() { return reinterpret_cast<std::byte*>(this + 1); }
};
static_assert(sizeof(Note) == 64);

/// Returns the distance of the two places.
constexpr std::uint64_t note_stride(std::uint64_t note_bytes) {
  return (sizeof(Note) + note_bytes + alignof(Note) - 1) / alignof(Note) * alignof(Note);
}

/// Returns the note of the last submission that had one; null if none had.
Note* last_note(const Arena& arena);

/// Returns the place beside that of last_note(), where the note of the next submission goes.
Note& next_note(const Arena& arena);

/// Writes a note of ControlBlock::note_bytes there. It counts when it has a ticket and that is submitted. A
/// death before leaves the last note.
void write_note(const Arena& arena, const void* bytes, std::uint64_t step);

/// Forgets the notes of steps that were submitted behind a number of WorkEntries. Their bytes stay.
void drop_notes(const Arena& arena, std::uint64_t behind);

}  // namespace zf
