// Running processes, their threads and where their memory lies, as /proc tells it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/id_set.hpp"
#include "os/environment.hpp"
#include "os/sysroot.hpp"

namespace zf {

struct ThreadState {
  int tid = 0;
  std::string name;         ///< at most 15 characters
  CpuSet cpus;              ///< where it may run
  Pu last_cpu;              ///< where it ran last
  std::uint64_t ticks = 0;  ///< of CPU time since it started, in sysconf(_SC_CLK_TCK) per second
};

struct ProcessState {
  int pid = 0;
  int parent = 0;
  std::string name;
  std::vector<ThreadState> threads;  ///< never empty, the main thread first
};

/// Ascending; kernel threads too.
std::vector<int> process_ids(const SysRoot& sysroot);

/// Absent: it has ended. A thread that ends meanwhile is left out.
std::optional<ProcessState> read_process(const SysRoot& sysroot, int pid);

/// What it was started with. Absent: it has ended, or is another user's.
std::optional<Environment> environment_of(const SysRoot& sysroot, int pid);

/// Bytes of one process on each node.
using MemoryByNode = std::map<Node, std::uint64_t>;

/// Its own memory and what it shares by memfd (the optimizer's arena), not files: the page cache lies where
/// it was read first, by whomever. Pure.
MemoryByNode memory_of_numa_maps(std::string_view text);

/// Absent: the kernel has no such file (no NUMA), it is another user's process, or it has ended.
std::optional<MemoryByNode> memory_by_node(const SysRoot& sysroot, int pid);

}  // namespace zf
