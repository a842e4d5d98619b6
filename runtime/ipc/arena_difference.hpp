// Compares an arena that was kept with the one that a trainer wants.
#pragma once

#include <cstdint>
#include <string>

#include "ipc/arena.hpp"
#include "ipc/arena_layout.hpp"

namespace zf {

/// Returns how an arena differs from a layout, such as "group 2 has 100 elements, and not 200"; "" if it does
/// not. A sentence without its end.
std::string difference(const Arena& arena, const ArenaLayout& wanted);

/// Returns whether the trainer has submitted or prepared anything, ever.
bool has_work(const Arena& arena);

/// Returns the highest number of a group's last step that was begun; 0 if there was none. A state that was
/// read from a file has the number of none.
std::uint64_t last_begun_step(const Arena& arena);

}  // namespace zf
