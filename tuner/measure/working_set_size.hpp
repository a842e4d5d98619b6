// How much to measure over.
#pragma once

#include <cstdint>
#include <string>

#include "os/allowed.hpp"
#include "os/sysroot.hpp"

namespace zf {

/// How much, and why it is not what was asked for (empty: it is).
struct WorkingSetSize {
  std::uint64_t elements_per_rank = 0;
  std::string warning;
};

/// Elements (of WorkingSet::kBytesPerElement) per rank: `params` over the ranks where given, else just over
/// 1 GiB or four times the last-level caches for all ranks together, whichever is more; never more than
/// two fifths of `available_bytes`. Warns where memory cut it down or where caches would hold it. Pure.
WorkingSetSize working_set_size(std::uint64_t params, int ranks, std::uint64_t cache_bytes,
                                std::uint64_t available_bytes);

/// MemAvailable of /proc/meminfo, or the cgroup's memory limit, whichever is smaller.
/// Bytes. Throws Error(runtime_error) when /proc/meminfo cannot be read.
std::uint64_t available_memory_bytes(const SysRoot& sysroot, const Allowed& allowed);

}  // namespace zf
