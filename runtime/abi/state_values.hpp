// Reads and writes parameters and moments of a group as fp32, whatever its state format is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ipc/arena.hpp"

namespace zf {

/// Returns whether `kind` is the parameters or moments that this group has.
bool is_state(const GroupBlock& group, ArrayKind kind);

/// Returns the type in which the arena has these elements; `none` for the parameters if the masters are
/// split. Precondition: is_state().
ElementType stored_type(const GroupBlock& group, ArrayKind kind);

/// Reads elements from `begin` on. Precondition: is_state(), and the group has these elements.
void read_values(const Arena& arena, const GroupBlock& group, ArrayKind kind, std::uint64_t begin,
                 std::span<float> values);

/// Returns an array as it is stored. Precondition: is_state(), and stored_type() is a type.
std::span<std::byte> stored_bytes(const Arena& arena, const GroupBlock& group, ArrayKind kind);

/// Writes elements from `begin` on. bf16 moments are rounded to nearest, and masters are split. Precondition
/// as for read_values().
void write_values(const Arena& arena, const GroupBlock& group, ArrayKind kind, std::uint64_t begin,
                  std::span<const float> values);

}  // namespace zf
