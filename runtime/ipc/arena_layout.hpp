// Where everything lies in an arena. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ipc/control_block.hpp"

namespace zf {

inline constexpr std::size_t kPageBytes = 4096;
/// Beyond any machine; keeps every sum below far from overflow.
inline constexpr std::uint64_t kMaxElements = std::uint64_t{1} << 48;
inline constexpr std::size_t kMaxGroups = std::size_t{1} << 20;

/// What is worth one transfer to a GPU.
inline constexpr std::uint64_t kChunkBytes = std::uint64_t{256} << 20;
/// Chunks begin at multiples of so many elements: at pages of all arrays.
inline constexpr std::uint64_t kChunkGrain = kPageBytes / 2;

/// What a group needs. Parameters and moments are fp32; there are two gradient buffers.
struct GroupShape {
  std::uint64_t elements = 0;                 ///< may be 0: an empty partition
  ElementType grad_type = ElementType::f32;   ///< f32, bf16 or f16
  ElementType copy_type = ElementType::none;  ///< none, bf16 or f16
  bool stale = false;                         ///< an fp32 snapshot
  std::uint64_t chunk_bytes = kChunkBytes;    ///< of the copy, or, without one, of an fp32 array
};

struct ArenaLayout {
  std::uint64_t groups_offset = 0;  ///< GroupBlock[groups]
  std::uint64_t ring_offset = 0;    ///< WorkEntry[ring_capacity]
  std::uint32_t ring_capacity = 0;
  std::uint64_t undo_offset = 0;     ///< UndoLog's, one per thread of the worker
  std::uint64_t members_offset = 0;  ///< MemberProgress, likewise
  std::uint32_t members = 0;
  std::uint64_t arrays_offset = 0;  ///< page-aligned: what comes before it is control, after it arrays
  std::uint64_t bytes = 0;          ///< of the whole arena, whole pages
  std::vector<GroupShape> shapes;
  std::vector<std::array<ArrayPlace, kArrayKinds>> arrays;  ///< per group
};

std::uint64_t bytes_of(ElementType type);

/// How many elements of the group a chunk has: chunk_bytes, rounded down to the grain, but one grain at
/// least.
std::uint64_t chunk_elements(const GroupShape& group);

/// For a worker of so many threads. The control block at 0, descriptors, ring, undo, progress, then per group
/// p, m, v, two gradients, stale, copy, each on a page of its own start, large ones a gap apart
/// (base/stagger.hpp). Throws Error(usage) that names the group: too many elements or groups, none, or a type
/// that the array cannot have.
ArenaLayout arena_layout(const std::vector<GroupShape>& groups, std::size_t threads = 1);

}  // namespace zf
