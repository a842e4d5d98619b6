// Memory policy and placement, through libnuma. The only file that knows libnuma.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/id_set.hpp"

namespace zf {

enum class MemoryPolicy { preferred, bind };

/// Absent: done. Else the reason it was not, in words: containers often refuse it (seccomp, EPERM), and
/// then first touch alone decides. Never throws for a refusal.
using PolicyRefusal = std::optional<std::string>;

/// The default policy of the calling thread and, across exec, of the command it becomes.
/// Preferred falls back to other nodes when these are full; with bind the kernel's out-of-memory killer then
/// ends a process that uses them.
/// An empty set puts the system's default back.
PolicyRefusal set_thread_memory_policy(MemoryPolicy policy, const NodeSet& nodes);

/// The policy of a range that no page of has been touched yet. Precondition: start is page-aligned.
PolicyRefusal set_range_memory_policy(MemoryPolicy policy, const NodeSet& nodes, void* start,
                                      std::size_t bytes);

/// Huge pages for a mapping, from whatever touches it next on. Shared memory gets them only where the system
/// allows it, which no call says: look at huge_bytes_of() afterwards.
PolicyRefusal ask_for_huge_pages(void* start, std::size_t bytes);

/// How much of a range the calling process has mapped by huge pages (/proc/self/smaps). 0 when that cannot be
/// read. Precondition: start is page-aligned.
std::uint64_t huge_bytes_of(const void* start, std::size_t bytes);

/// The system's setting for huge pages in shared memory, in words, for when there are none.
std::string why_no_huge_pages();

/// Keeps a range in memory for as long as the process lives.
PolicyRefusal lock_memory(void* start, std::size_t bytes);

/// How many pages of a range lie on which node, by move_pages; only one in `every` is looked at. Pages that
/// the calling process has not touched are counted under `absent`.
struct PageCounts {
  std::map<Node, std::size_t> by_node;
  std::size_t absent = 0;
  PolicyRefusal refusal;  ///< move_pages was refused: the counts are empty
};
PageCounts count_pages(const void* start, std::size_t bytes, std::size_t every = 1);

}  // namespace zf
