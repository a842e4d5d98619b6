#include "ipc/arena_layout.hpp"

#include <algorithm>
#include <bit>
#include <string_view>

#include "base/error.hpp"
#include "base/format.hpp"
#include "base/stagger.hpp"
#include "ipc/notes.hpp"

namespace zf {
namespace {

std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) { return (value + unit - 1) / unit * unit; }

/// Returns what a state format does not go together with; "" if it is fine.
std::string_view objection_to(const GroupShape& group) {
  if (group.format == StateFormat::fp32) return "";
  if (group.speculative) return "speculation";
  if (group.stale) return "stale";
  if (group.moment_sets != 1) return "two sets of moments";
  if (group.copy_type == ElementType::f16) return "an fp16 copy";
  return "";
}

void check_format(const GroupShape& group, std::size_t index) {
  if (group.format > StateFormat::bf16_split) {
    throw Error(Exit::usage,
                format_text("group {}: {} is not a state format", index, static_cast<unsigned>(group.format)),
                "use fp32, bf16, split or bf16+split");
  }
  if (const std::string_view objection = objection_to(group); !objection.empty()) {
    throw Error(Exit::usage,
                format_text("group {}: the state format {} does not go together with {}", index,
                            name_of(group.format), objection),
                "use fp32 for this group");
  }
  if (has_split_masters(group.format) && group.copy_type != ElementType::bf16) {
    throw Error(Exit::usage,
                format_text("group {}: the state format {} needs a copy in bf16, which is the parameters",
                            index, name_of(group.format)),
                "set copy_type to bf16");
  }
}

void check_ranges(const GroupShape& group, std::size_t index) {
  for (std::size_t i = 0; i < group.ranges.size(); ++i) {
    const std::uint64_t position = group.ranges[i].position;
    const auto refuse = [&](std::string_view why) {
      throw Error(Exit::usage, format_text("group {}, range {}: position {} {}", index, i, position, why));
    };
    if (position >= group.elements) refuse(format_text("is outside of its {} elements", group.elements));
    if (position % kRangeGrain != 0) refuse(format_text("is no multiple of {}", kRangeGrain));
    if (i > 0 && position <= group.ranges[i - 1].position) refuse("is not after that of the range before");
  }
}

void check(const GroupShape& group, std::size_t index) {
  if (group.elements > kMaxElements) {
    throw Error(Exit::usage, format_text("group {}: {} elements are more than any machine holds ({})", index,
                                         group.elements, kMaxElements));
  }
  if (group.grad_type == ElementType::none || group.grad_type > ElementType::f16) {
    throw Error(
        Exit::usage,
        format_text("group {}: {} is not a gradient type", index, static_cast<unsigned>(group.grad_type)),
        "use f32, bf16 or f16");
  }
  if (group.copy_type == ElementType::f32 || group.copy_type > ElementType::f16) {
    throw Error(Exit::usage,
                format_text("group {}: {} is not a copy type", index, static_cast<unsigned>(group.copy_type)),
                "use none, bf16 or f16");
  }
  if (group.moment_sets == 0 || group.moment_sets > kMaxMomentSets) {
    throw Error(Exit::usage, format_text("group {}: {} sets of moments", index, group.moment_sets),
                "use 1 or 2");
  }
  if (group.grad_buffers == 0 || group.grad_buffers > kGradBuffers) {
    throw Error(Exit::usage, format_text("group {}: {} gradient buffers", index, group.grad_buffers),
                "use 1 or 2");
  }
  check_format(group, index);
  check_ranges(group, index);
}

/// Returns the bytes of each array, in the order of ArrayKind.
std::array<std::uint64_t, kArrayKinds> sizes_of(const GroupShape& group) {
  const StateBytes each = state_bytes(group.format);
  const std::uint64_t full = group.elements * bytes_of(ElementType::f32);
  const std::uint64_t moment = group.elements * each.moment;
  const std::uint64_t grads = group.elements * bytes_of(group.grad_type);
  const std::uint64_t copy = group.elements * bytes_of(group.copy_type);
  const std::uint64_t set_1 = group.moment_sets == 2 ? full : 0;
  const std::uint64_t second_grads = group.grad_buffers == 2 ? grads : 0;
  const std::uint64_t master = group.elements * each.master;
  return {master, moment, moment, grads, second_grads, group.stale ? full : 0, copy, set_1, set_1};
}

/// Returns the gap that keeps element i of a group's arrays from having equal low address bits (stagger.hpp).
/// Small arrays stay in the caches and need no gap: with thousands of small groups the gaps would be larger
/// than the elements.
std::uint64_t gap_after(std::uint64_t array_bytes) {
  constexpr std::uint64_t kSmall = 16 * kStaggerBytes;
  return array_bytes < kSmall ? 0 : kStaggerBytes;
}

/// Returns the bytes of a group's state in its image.
std::uint64_t image_bytes(const GroupShape& group, const std::array<std::uint64_t, kArrayKinds>& sizes) {
  std::uint64_t bytes = 0;
  for (const ArrayKind kind : kStateArrays) {
    bytes += to_image_page(kind == ArrayKind::params ? group.elements * sizeof(float)
                                                     : sizes[static_cast<std::size_t>(kind)]);
  }
  return bytes;
}

/// Returns for how many entries the ring has room: see WorkEntry.
std::uint32_t ring_capacity(const std::vector<GroupShape>& groups) {
  std::uint64_t entries = 0;
  for (const GroupShape& group : groups) {
    entries += kWorkKinds;
    if (group.speculative) entries += std::min(group.elements / chunk_elements(group) + 1, kMaxSpeculations);
  }
  return static_cast<std::uint32_t>(std::bit_ceil(entries * kGradBuffers));
}

}  // namespace

std::uint64_t bytes_of(ElementType type) {
  switch (type) {
    case ElementType::none:
      return 0;
    case ElementType::f32:
      return 4;
    case ElementType::bf16:
    case ElementType::f16:
      return 2;
  }
  return 0;
}

std::uint64_t chunk_elements(const GroupShape& group) {
  const ElementType type = group.copy_type != ElementType::none ? group.copy_type : ElementType::f32;
  return std::max(group.chunk_bytes / bytes_of(type) / kChunkGrain, std::uint64_t{1}) * kChunkGrain;
}

ArenaLayout arena_layout(const std::vector<GroupShape>& groups, std::size_t threads,
                         std::uint64_t note_bytes) {
  if (groups.empty() || groups.size() > kMaxGroups) {
    throw Error(Exit::usage,
                format_text("cannot make an arena of {} groups: it has 1 to {}", groups.size(), kMaxGroups));
  }
  if (note_bytes > kMaxNoteBytes) {
    throw Error(Exit::usage,
                format_text("a note of {} bytes is too large: at most {}", note_bytes, kMaxNoteBytes));
  }
  for (std::size_t i = 0; i < groups.size(); ++i) check(groups[i], i);
  ArenaLayout layout;
  layout.groups_offset = round_up(sizeof(ControlBlock), alignof(GroupBlock));
  layout.ring_offset = layout.groups_offset + groups.size() * sizeof(GroupBlock);
  layout.ring_capacity = ring_capacity(groups);
  layout.undo_offset =
      round_up(layout.ring_offset + layout.ring_capacity * sizeof(WorkEntry), sizeof(UndoLog));
  layout.members = static_cast<std::uint32_t>(threads);
  layout.members_offset = layout.undo_offset + threads * sizeof(UndoLog);
  layout.ranges_offset = layout.members_offset + threads * sizeof(MemberProgress);
  std::size_t ranges = 0;
  for (const GroupShape& group : groups) ranges += group.ranges.size();
  layout.note_bytes = note_bytes;
  layout.notes_offset = round_up(layout.ranges_offset + ranges * sizeof(ElementRange), alignof(Note));
  layout.arrays_offset =
      round_up(layout.notes_offset + (note_bytes == 0 ? 0 : 2 * note_stride(note_bytes)), kPageBytes);
  layout.shapes = groups;

  std::uint64_t at = layout.arrays_offset;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const auto sizes = sizes_of(groups[i]);
    auto& places = layout.arrays.emplace_back();
    for (std::size_t kind = 0; kind < kArrayKinds; ++kind) {
      places[kind] = {.offset = at, .bytes = sizes[kind]};
      at = round_up(at + sizes[kind], kPageBytes) + gap_after(sizes[kind]);
    }
    layout.image_offsets.push_back(layout.image_bytes);
    layout.image_bytes += image_bytes(groups[i], sizes);
    const std::uint64_t log_bytes = groups[i].speculative ? rollback_bytes(groups[i].elements) : 0;
    layout.logs.push_back({.offset = at, .bytes = log_bytes});
    at = round_up(at + log_bytes, kPageBytes) + gap_after(log_bytes);
    // 2^20 groups of 2^48 elements would overflow; 2^62 bytes are refused long before that.
    if (at > (std::uint64_t{1} << 62)) {
      throw Error(Exit::usage, format_text("group {}: the arena would exceed 2^62 bytes", i));
    }
  }
  layout.bytes = at;
  return layout;
}

}  // namespace zf
