// Running processes, their threads, and where their memory lies, as /proc reports it.
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
  CpuSet cpus;              ///< the CPUs it may run on
  Pu last_cpu;              ///< the CPU it ran on last
  std::uint64_t ticks = 0;  ///< CPU time since its start; sysconf(_SC_CLK_TCK) ticks are a second
};

struct ProcessState {
  int pid = 0;
  int parent = 0;
  std::string name;
  std::vector<ThreadState> threads;  ///< never empty, the main thread first
};

/// Returns the ids of all processes, kernel threads included, ascending.
std::vector<int> process_ids(const SysRoot& sysroot);

/// Returns a process, without threads that end meanwhile; nothing if the process has ended.
std::optional<ProcessState> read_process(const SysRoot& sysroot, int pid);

/// Returns the environment that a process was started with; nothing if it has ended or belongs to another
/// user.
std::optional<Environment> environment_of(const SysRoot& sysroot, int pid);

/// Returns the CPUs that a process could use if it were not bound: those that are online and in the cpuset of
/// its control group. Empty if that is not known.
CpuSet available_cpus(const SysRoot& sysroot, int pid);

/// The bytes of one process on each node.
using MemoryByNode = std::map<Node, std::uint64_t>;

/// Counts a process's own memory and what it shares by memfd (the optimizer's arena). It does not count
/// files: their pages lie where any process read them first. Pure.
MemoryByNode memory_of_numa_maps(std::string_view text);

/// Returns the memory of a process by node; nothing if the kernel has no such file (no NUMA), or the process
/// belongs to another user or has ended.
std::optional<MemoryByNode> memory_by_node(const SysRoot& sysroot, int pid);

}  // namespace zf
