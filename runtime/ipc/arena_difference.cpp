#include "ipc/arena_difference.hpp"

#include <algorithm>

#include "base/format.hpp"
#include "base/text.hpp"

namespace zf {
namespace {

bool has_same_settings(const Arena& arena, const GroupBlock& group, const ArenaLayout& wanted,
                       std::size_t index) {
  const GroupShape& shape = wanted.shapes[index];
  return group.grad_type == shape.grad_type && group.copy_type == shape.copy_type &&
         group.has_stale() == shape.stale && group.moment_sets == shape.moment_sets &&
         group.chunk_elements == chunk_elements(shape) && group.first_element == shape.first_element &&
         group.arrays == wanted.arrays[index] && group.log == wanted.logs[index] &&
         std::ranges::equal(arena.ranges(group), shape.ranges);
}

}  // namespace

std::string difference(const Arena& arena, const ArenaLayout& wanted) {
  const ControlBlock& control = arena.control();
  if (control.group_count != wanted.shapes.size())
    return format_text("it has {}, and not {}", print_count(control.group_count, "group"),
                       wanted.shapes.size());
  for (std::size_t i = 0; i < wanted.shapes.size(); ++i) {
    const GroupBlock& group = arena.group(i);
    if (group.elements != wanted.shapes[i].elements)
      return format_text("group {} has {}, and not {}", i, print_count(group.elements, "element"),
                         wanted.shapes[i].elements);
    if (group.format != wanted.shapes[i].format)
      return format_text("group {} has the state format {}, and not {}", i, name_of(group.format),
                         name_of(wanted.shapes[i].format));
  }
  if (control.members != wanted.members)
    return format_text("it is for {} of the optimizer, and not {}", print_count(control.members, "thread"),
                       wanted.members);
  if (control.note_bytes != wanted.note_bytes)
    return format_text("its note has {} bytes, and not {}", control.note_bytes, wanted.note_bytes);
  for (std::size_t i = 0; i < wanted.shapes.size(); ++i) {
    if (!has_same_settings(arena, arena.group(i), wanted, i))
      return format_text("group {} has other types, outputs, buffers, chunks or element numbers", i);
  }
  return "";
}

bool has_work(const Arena& arena) {
  const ControlBlock& control = arena.control();
  return control.prepared.load(std::memory_order_seq_cst) != 0 ||
         control.submitted.load(std::memory_order_seq_cst) != 0;
}

std::uint64_t last_begun_step(const Arena& arena) {
  const ControlBlock& control = arena.control();
  std::uint64_t last = 0;
  for (std::size_t i = 0; i < control.group_count; ++i) {
    GroupBlock& group = arena.group(i);
    if (group.committed.load(std::memory_order_seq_cst) != 0) last = std::max(last, last_step_number(group));
  }
  const std::uint64_t submitted = control.submitted.load(std::memory_order_seq_cst);
  for (std::uint64_t count = control.completed.load(std::memory_order_seq_cst); count < submitted; ++count) {
    const WorkEntry& entry = arena.entry(count);
    if (entry.group >= control.group_count || entry.buffer >= kGradBuffers) break;  // it is being written
    if (entry.kind != WorkKind::step && entry.kind != WorkKind::keep) continue;
    last = std::max(last, arena.group(entry.group).requests[entry.buffer].step);
  }
  return last;
}

}  // namespace zf
