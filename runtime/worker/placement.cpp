#include "worker/placement.hpp"

#include <algorithm>
#include <iterator>
#include <vector>

#include "base/error.hpp"
#include "os/memory.hpp"

namespace zf {
namespace {

/// Enough pages to detect a group, or a thread's slice, on the wrong node. Checking 12 million pages would
/// take seconds.
constexpr std::uint64_t kPagesToLookAt = 65536;

constexpr std::uint64_t kHugePageBytes = std::uint64_t{2} << 20;

void add(Notes& notes, Strictness strictness, const PolicyRefusal& refusal, const char* next) {
  if (!refusal) return;
  if (strictness == Strictness::required) throw Error(Exit::runtime_error, *refusal, next);
  notes += (notes.empty() ? "" : "; ") + *refusal;
}

std::byte* arrays_of(const Arena& arena) { return arena.at<std::byte>(arena.control().arrays_offset); }
std::uint64_t array_bytes_of(const Arena& arena) { return arena.bytes() - arena.control().arrays_offset; }

/// Small arrays stay in small pages, unless huge ones are required: a huge page would waste most of itself.
bool wants_huge_pages(const WorkerArguments& arguments, std::uint64_t array_bytes) {
  return (arguments.huge_pages == Strictness::required && array_bytes != 0) ||
         (arguments.huge_pages == Strictness::best_effort && array_bytes >= kHugePageBytes);
}

void count_nodes(const Arena& arena, const NodeSet& nodes, PlacementStats& placement, Notes& notes) {
  const std::uint64_t every = std::max<std::uint64_t>(1, array_bytes_of(arena) / kPageBytes / kPagesToLookAt);
  for (std::size_t i = 0; i < arena.control().group_count; ++i) {
    const GroupBlock& group = arena.group(i);
    std::vector<ArrayPlace> places(std::begin(group.arrays), std::end(group.arrays));
    places.push_back(group.log);
    for (const ArrayPlace& array : places) {
      const PageCounts counts = count_pages(arena.at<std::byte>(array.offset), array.bytes, every);
      if (counts.refusal) return add(notes, Strictness::best_effort, counts.refusal, "");
      for (const auto& [node, pages] : counts.by_node) {
        (nodes.empty() || nodes.contains(node) ? placement.pages_on_plan : placement.pages_elsewhere) +=
            pages;
      }
      placement.pages_absent += counts.absent;
    }
  }
}

}  // namespace

Notes prepare_memory(Arena& arena, const WorkerArguments& arguments) {
  Notes notes;
  const std::uint64_t bytes = array_bytes_of(arena);
  if (!arguments.mems.empty()) {
    PolicyRefusal refusal = set_thread_memory_policy(arguments.memory_policy, arguments.mems);
    if (!refusal && bytes != 0)
      refusal = set_range_memory_policy(arguments.memory_policy, arguments.mems, arrays_of(arena), bytes);
    add(notes, Strictness::best_effort, refusal, "");
  }
  if (wants_huge_pages(arguments, bytes)) {
    add(notes, arguments.huge_pages, ask_for_huge_pages(arrays_of(arena), bytes),
        "leave zf_options.huge_pages at ZF_TRY");
  }
  return notes;
}

void settle_memory(Arena& arena, const WorkerArguments& arguments, Notes notes) {
  PlacementStats placement = {};
  bool has_no_huge_pages = false;
  const std::uint64_t bytes = array_bytes_of(arena);
  if (arguments.lock_memory != Strictness::off) {
    const PolicyRefusal refusal = lock_memory(arena.at<void>(0), arena.bytes());
    add(notes, arguments.lock_memory, refusal,
        "raise `ulimit -l`, or leave zf_options.lock_memory at ZF_TRY");
    if (!refusal) placement.locked_bytes = arena.bytes();
  }
  if (wants_huge_pages(arguments, bytes)) {
    placement.huge_bytes = huge_bytes_of(arrays_of(arena), bytes);
    has_no_huge_pages = placement.huge_bytes == 0;
  }
  count_nodes(arena, arguments.mems, placement, notes);
  // This note comes last: it is the most common one, and the field has room for some 200 characters.
  if (has_no_huge_pages) {
    add(notes, arguments.huge_pages, why_no_huge_pages(),
        "set /sys/kernel/mm/transparent_hugepage/shmem_enabled to advise, "
        "or leave zf_options.huge_pages at ZF_TRY");
  }
  arena.control().stats.placement = placement;
  arena.control().stats.memory_note.store(notes);
}

}  // namespace zf
