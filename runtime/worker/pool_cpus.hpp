// Decides which CPU each thread of the pool runs on, also when CPUs of the plan have left. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/id_set.hpp"

namespace zf {

/// One CPU for each thread of the pool. There are as many threads as the plan says, whatever is left: the
/// slices of a step depend on their number.
struct PoolCpus {
  std::vector<Pu> of_thread;  ///< names a CPU several times if there are fewer CPUs than threads
  CpuSet lost;                ///< the planned CPUs that cannot be used
  std::string note;           ///< says so, for zf_stats.cpu_note; empty if nothing is lost
};

/// Returns the CPUs for a pool that was planned on `pool`, one thread per CPU. A thread whose CPU is usable
/// runs there. The others are spread in turn over the usable CPUs of the pool, else over those of the home,
/// else over all that are usable. Preconditions: pool and usable are not empty.
PoolCpus place_pool(const CpuSet& pool, const CpuSet& home, const CpuSet& usable);

}  // namespace zf
