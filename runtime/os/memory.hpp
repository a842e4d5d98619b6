// Sets and reads back memory policy and placement. Only this file uses libnuma.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/id_set.hpp"
#include "base/memory_policy.hpp"

namespace zf {

/// The reason, in words, why a call was refused; absent if the call succeeded. Containers often refuse these
/// calls (seccomp, EPERM); then first touch alone decides the placement. A refusal is never thrown.
using PolicyRefusal = std::optional<std::string>;

/// Sets the default policy of the calling thread and, across exec, of the command that it becomes. An
/// empty set, or MemoryPolicy::none, restores the default of the system.
PolicyRefusal set_thread_memory_policy(MemoryPolicy policy, const NodeSet& nodes);

/// Returns the policy of the calling thread, which it has got across exec from the process that started it;
/// nothing if it is the system's default, of a kind that is not known, or if the kernel does not say
/// (containers often refuse get_mempolicy). Its nodes are those that the cpuset allows.
std::optional<ThreadPolicy> thread_memory_policy();

/// Sets the policy of a range. Precondition: start is page-aligned, and no page of the range was touched yet.
PolicyRefusal set_range_memory_policy(MemoryPolicy policy, const NodeSet& nodes, void* start,
                                      std::size_t bytes);

/// Asks for huge pages for the parts of a mapping that are touched from now on. Shared memory gets them only
/// if the system allows it, and no call says so: check huge_bytes_of() afterwards.
PolicyRefusal ask_for_huge_pages(void* start, std::size_t bytes);

/// Returns how many bytes of a range the calling process has mapped by huge pages (/proc/self/smaps); 0 if
/// that cannot be read. Precondition: start is page-aligned.
std::uint64_t huge_bytes_of(const void* start, std::size_t bytes);

/// Explains, by the system's setting for shared memory, why there are no huge pages. The text is short,
/// because it shares zf_stats.memory_note with others.
std::string why_no_huge_pages();

/// Locks a range in memory for as long as the process lives.
PolicyRefusal lock_memory(void* start, std::size_t bytes);

/// The number of pages of a range on each node.
struct PageCounts {
  std::map<Node, std::size_t> by_node;
  std::size_t absent = 0;  ///< pages that the calling process has not touched
  PolicyRefusal refusal;   ///< set if move_pages was refused; then the counts are empty
};
/// Counts the pages of a range with move_pages, checking one page in `every`.
PageCounts count_pages(const void* start, std::size_t bytes, std::size_t every = 1);

}  // namespace zf
