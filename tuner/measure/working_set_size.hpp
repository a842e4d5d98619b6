// Decides how much memory a measurement uses.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.hpp"
#include "os/allowed.hpp"
#include "os/sysroot.hpp"

namespace zf {

/// The size, and a warning if it is not what was asked for (otherwise empty).
struct WorkingSetSize {
  std::uint64_t elements_per_rank = 0;
  std::string warning;
};

/// Returns the number of elements (of WorkingSet::kBytesPerElement) per rank. All ranks together get just
/// over 1 GiB or four times the last-level caches, whichever is more, but no more than `params` elements if
/// that is not 0, and no more than two fifths of `available_bytes`. Warns if memory limits it or if it may
/// stay in the caches. Pure.
WorkingSetSize working_set_size(std::uint64_t params, int ranks, std::uint64_t cache_bytes,
                                std::uint64_t available_bytes);

/// Returns `whole` (of that many ranks), or less if the budget is too short for a visit of it: below 4 s,
/// `whole` × budget / 4 s, but at least 64 MiB for all ranks together, or `whole` if that is less. The
/// warning is then of the budget, and no longer of what limited `whole`. A budget of 0 limits nothing. Pure.
WorkingSetSize within_budget(const WorkingSetSize& whole, int ranks, std::uint64_t cache_bytes,
                             Nanoseconds budget_ns);

/// Returns MemAvailable of /proc/meminfo or the cgroup's memory limit in bytes, whichever is smaller. Throws
/// Error(runtime_error) if /proc/meminfo cannot be read.
std::uint64_t available_memory_bytes(const SysRoot& sysroot, const Allowed& allowed);

}  // namespace zf
