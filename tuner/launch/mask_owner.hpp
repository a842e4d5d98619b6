// Who has an affinity mask: all ranks of the node, or one rank alone. Pure.
#pragma once

#include "base/id_set.hpp"
#include "os/environment.hpp"

namespace zf {

/// Returns true if the launcher that sets this variable may bind each rank to a mask of its own.
bool may_bind_each_rank(const std::string& variable);

/// Returns true if this process runs in a Slurm job, and the CPUs that it sees are the job's or the step's,
/// which all ranks of the node share. `seen` is what this process may use, and `of_job` the same without its
/// affinity mask. The control group of a step is the whole step's, so without a mask it is true. A mask may
/// be this rank's own, and then it is false, if one of these has set it:
/// - A launcher of MPI, jsrun or Flux that has started the ranks inside the job. But a mask with all CPUs of
///   the job on this node (SLURM_CPUS_ON_NODE) is the job's.
/// - Slurm itself, by a kind of binding with masks that it does not name (SLURM_CPU_BIND_TYPE: rank,
/// map_ldom).
///
/// `rank` is the variable that gives the local rank, and `count` the one that gives the number of ranks. All
/// ranks of a node get the same answer.
bool sees_cpus_of_slurm_job(const Environment& environment, const std::string& rank, const std::string& count,
                            const CpuSet& seen, const CpuSet& of_job);

}  // namespace zf
