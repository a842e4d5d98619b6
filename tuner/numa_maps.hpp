// Where a process's memory lies, by /proc/PID/numa_maps.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>

#include "base/id_set.hpp"
#include "os/sysroot.hpp"

namespace zf {

/// Bytes of one process on each node.
using MemoryByNode = std::map<Node, std::uint64_t>;

/// Its own memory and what it shares by memfd (the optimizer's arena), not files: the page cache lies where
/// it was read first, by whomever. Pure.
MemoryByNode memory_of_numa_maps(std::string_view text);

/// Absent: the kernel has no such file (no NUMA), it is another user's process, or it has ended.
std::optional<MemoryByNode> memory_by_node(const SysRoot& sysroot, int pid);

}  // namespace zf
