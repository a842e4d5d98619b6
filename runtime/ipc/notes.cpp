#include "ipc/notes.hpp"

#include <cstring>

#include "ipc/arena.hpp"

namespace zf {
namespace {

Note& place(const Arena& arena, unsigned index) {
  const ControlBlock& control = arena.control();
  return *arena.at<Note>(control.notes_offset + index * note_stride(control.note_bytes));
}

}  // namespace

Note* last_note(const Arena& arena) {
  const ControlBlock& control = arena.control();
  if (control.note_bytes == 0) return nullptr;
  const std::uint64_t submitted = control.submitted.load(std::memory_order_seq_cst);
  Note* last = nullptr;
  std::uint64_t newest = 0;
  for (unsigned index = 0; index < 2; ++index) {
    const std::uint64_t ticket = place(arena, index).ticket.load(std::memory_order_acquire);
    if (ticket <= newest || ticket > submitted) continue;
    newest = ticket;
    last = &place(arena, index);
  }
  return last;
}

Note& next_note(const Arena& arena) { return place(arena, last_note(arena) == &place(arena, 0) ? 1 : 0); }

void write_note(const Arena& arena, const void* bytes, std::uint64_t step) {
  Note& note = next_note(arena);
  // The order of the compiler is enough: another process reads this after the death of this one.
  note.ticket.store(0, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  note.step = step;
  std::memcpy(note.bytes(), bytes, arena.control().note_bytes);
}

void drop_notes(const Arena& arena, std::uint64_t behind) {
  if (arena.control().note_bytes == 0) return;
  for (unsigned index = 0; index < 2; ++index) {
    std::atomic<std::uint64_t>& ticket = place(arena, index).ticket;
    if (ticket.load(std::memory_order_acquire) > behind) ticket.store(0, std::memory_order_release);
  }
}

}  // namespace zf
