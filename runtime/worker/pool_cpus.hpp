// Decides which CPU each thread of the pool runs on, also when CPUs of the plan have left. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/id_set.hpp"

namespace zf {

/// The CPUs of a pool. There are as many threads as the plan says, whatever is left: the slices of a step
/// depend on their number.
struct PoolCpus {
  /// One for each thread; names a CPU several times if there are fewer CPUs than threads. Empty if all
  /// threads share all CPUs, because neighbours share them too.
  std::vector<Pu> of_thread;
  CpuSet cpus;       ///< of all threads
  CpuSet lost;       ///< the planned CPUs that cannot be used
  std::string note;  ///< says so, for zf_stats.cpu_note; empty if nothing is lost
};

/// Returns the CPUs for a pool that was planned on `pool`, one thread per CPU. A thread with a usable CPU
/// runs there. The others are spread in turn over the usable CPUs of the pool, else over those of the home,
/// else over all that are usable. Preconditions: pool and usable are not empty.
PoolCpus place_pool(const CpuSet& pool, const CpuSet& home, const CpuSet& usable);

/// Returns the CPUs for a pool of `threads` threads that share them: the usable ones of the pool, else those
/// of the home, else all that are usable. Preconditions as for place_pool().
PoolCpus place_shared_pool(const CpuSet& pool, const CpuSet& home, const CpuSet& usable, std::size_t threads);

}  // namespace zf
