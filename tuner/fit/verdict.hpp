// Does a forecast fit this node: what limits it, and by how much it fits or does not.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/memory_policy.hpp"
#include "fit/forecast.hpp"
#include "machine/machine.hpp"
#include "os/memory_limits.hpp"

namespace zf {

/// What a node gives to a job.
struct Capacity {
  std::uint64_t bytes = 0;
  std::string limit;  ///< what sets it: a file, or a name in /proc/meminfo
};

/// A NUMA node that ranks may live on.
struct NodeMemory {
  Node id;
  std::uint64_t bytes = 0;
};

/// The memory of a node, as far as it is known.
struct NodeLimits {
  Capacity capacity;
  std::vector<NodeMemory> nodes = {};  ///< the allowed NUMA nodes with CPUs
  MemoryLimits more = {};
};

/// Returns the smallest of the limits: that of the cgroup, without what is used in it already; the memory
/// that is available; that of the allowed NUMA nodes, if some are not allowed; what may be committed, if
/// overcommitting is off. Under a memory policy that binds or interleaves, only its nodes are allowed.
/// `limits` are those of the machine, or empty if only its topology is known: then all memory of its nodes
/// counts as available. Throws Error(usage) if nothing is known of its memory. Pure.
NodeLimits limits_of(const Machine& machine, const MemoryLimits& limits,
                     const std::optional<ThreadPolicy>& policy = std::nullopt);

struct FitVerdict {
  bool fits = false;
  FitPhase phase = FitPhase::start;  ///< that needs most
  std::uint64_t needed = 0;
  std::uint64_t capacity = 0;
  std::vector<std::string> problems = {};  ///< also those that do not stop the job: one sentence each
};

/// Returns the verdict. A /dev/shm that is too small is a reason not to fit. A NUMA node, locked memory and
/// huge pages are not, and become sentences. Pure.
FitVerdict verdict_of(const FitJob& job, const MemoryForecast& forecast, const NodeLimits& limits);

/// Returns what is wrong with /dev/shm, if that stops the job: a sentence without its full stop. Pure.
std::optional<std::string> shared_memory_shortage(const MemoryForecast& forecast, const MemoryLimits& limits);

/// Returns when a phase is: "in the steady state".
std::string_view phase_in_words(FitPhase phase);

/// Returns the verdict in one line: "fits: 612 of 755 GiB at the checkpoint" or "does not fit: short of 41.0
/// GiB at resume (796 of 755 GiB)". Pure.
std::string in_words(const FitVerdict& verdict);

/// Returns bytes as GiB or, below one, as MiB.
std::string print_memory(std::uint64_t bytes);

}  // namespace zf
