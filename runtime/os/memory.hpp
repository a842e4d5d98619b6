// Memory policy and placement, through libnuma. The only file that knows libnuma.
#pragma once

#include <cstddef>
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
/// Preferred falls back to other nodes when these are full; bind fails instead.
/// An empty set puts the system's default back.
PolicyRefusal set_thread_memory_policy(MemoryPolicy policy, const NodeSet& nodes);

/// The policy of a range that no page of has been touched yet. Precondition: start is page-aligned.
PolicyRefusal set_range_memory_policy(MemoryPolicy policy, const NodeSet& nodes, void* start,
                                      std::size_t bytes);

/// How many pages of a range lie on which node, by move_pages. Pages that the calling process has not
/// touched are counted under `absent`.
struct PageCounts {
  std::map<Node, std::size_t> by_node;
  std::size_t absent = 0;
  PolicyRefusal refusal;  ///< move_pages was refused: the counts are empty
};
PageCounts count_pages(const void* start, std::size_t bytes);

}  // namespace zf
