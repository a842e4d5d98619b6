// Computes where everything lies in an arena. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ipc/control_block.hpp"

namespace zf {

inline constexpr std::size_t kPageBytes = 4096;
/// More than any machine holds. Keeps every sum below far from overflow.
inline constexpr std::uint64_t kMaxElements = std::uint64_t{1} << 48;
inline constexpr std::size_t kMaxGroups = std::size_t{1} << 20;
inline constexpr std::uint64_t kMaxNoteBytes = std::uint64_t{1} << 30;

/// The default chunk: large enough to be worth one transfer to a GPU.
inline constexpr std::uint64_t kChunkBytes = std::uint64_t{256} << 20;
/// Chunks begin at multiples of this many elements, which are page boundaries in all arrays.
inline constexpr std::uint64_t kChunkGrain = kPageBytes / 2;

/// The arrays that a group needs.
struct GroupShape {
  std::uint64_t elements = 0;                 ///< may be 0: an empty partition
  ElementType grad_type = ElementType::f32;   ///< f32, bf16 or f16
  ElementType copy_type = ElementType::none;  ///< none, bf16 or f16
  bool stale = false;                         ///< has an fp32 snapshot
  std::uint32_t moment_sets = 1;              ///< 1, or 2: one for each gradient buffer
  std::uint32_t grad_buffers = 2;             ///< 1 or 2
  std::uint64_t chunk_bytes = kChunkBytes;    ///< bytes of the copy or, without a copy, of an fp32 array
  StateFormat format = StateFormat::fp32;     ///< of parameters and moments; fp32 if stale or two moment sets
  std::uint64_t first_element = 0;            ///< the number of the first element, for bf16 moments
  bool speculative = false;                   ///< has a log for speculated steps; only with fp32
  std::vector<ElementRange> ranges = {};      ///< from the first one on, elements are numbered by these
};

struct ArenaLayout {
  std::uint64_t groups_offset = 0;  ///< GroupBlock[groups]
  std::uint64_t ring_offset = 0;    ///< WorkEntry[ring_capacity]
  std::uint32_t ring_capacity = 0;
  std::uint64_t undo_offset = 0;     ///< UndoLog[members]
  std::uint64_t members_offset = 0;  ///< MemberProgress[members]
  std::uint32_t members = 0;         ///< threads of the worker
  std::uint64_t ranges_offset = 0;   ///< ElementRange of the groups, one group after the other
  std::uint64_t notes_offset = 0;    ///< two of the trainer's notes
  std::uint64_t note_bytes = 0;      ///< of each; 0: there are none
  std::uint64_t arrays_offset = 0;   ///< page-aligned; control data lies before it, arrays after it
  std::uint64_t bytes = 0;           ///< size of the whole arena, in whole pages
  std::vector<GroupShape> shapes;
  std::vector<std::array<ArrayPlace, kArrayKinds>> arrays;  ///< per group
  std::vector<ArrayPlace> logs;                             ///< of speculated steps, per group
  std::vector<std::uint64_t> image_offsets;                 ///< of the state in its image, per group
  std::uint64_t image_bytes = 0;
};

/// Returns the bytes of one element; 0 for none.
std::uint64_t bytes_of(ElementType type);

/// Returns how many elements of the group are in a chunk: chunk_bytes rounded down to the grain, but at least
/// one grain.
std::uint64_t chunk_elements(const GroupShape& group);

/// Returns the layout for a worker of this many threads and notes of this size. The control block lies at 0,
/// then come group blocks, ring, undo logs, progress, ranges and notes, then for each group p, m, v, two
/// gradients, stale, copy, the m and v of set 1, and the log of speculated steps. With split masters p has
/// the low halves and copy the high ones. Each array begins on a page of its own; large ones are a gap apart
/// (base/stagger.hpp). Throws Error(usage) that names the group if there are no groups, too many groups or
/// elements, or if an array cannot have its type, a group its number of moment sets, or a state format comes
/// with what it cannot come with, or ranges are not as zf_group says, or if a note is too large.
ArenaLayout arena_layout(const std::vector<GroupShape>& groups, std::size_t threads = 1,
                         std::uint64_t note_bytes = 0);

}  // namespace zf
