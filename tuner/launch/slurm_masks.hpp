// The CPUs that Slurm's task/affinity gave to each task of a step. Pure.
#pragma once

#include <vector>

#include "base/id_set.hpp"
#include "os/environment.hpp"

namespace zf {

/// Returns the CPUs of each local rank from SLURM_CPU_BIND_TYPE and SLURM_CPU_BIND_LIST. The list holds
/// hexadecimal masks if the type is "mask_cpu:" (which Slurm makes of --cpu-bind=cores and the like), and CPU
/// numbers if it is "map_cpu:". Returns an empty list if Slurm binds nothing or the list cannot be read.
std::vector<CpuSet> slurm_masks(const Environment& environment);

/// Returns the masks of so many tasks: Slurm goes through its list again if there are more tasks, and uses
/// its beginning if there are fewer.
std::vector<CpuSet> masks_of_tasks(const std::vector<CpuSet>& list, int tasks);

/// Returns true if there is one mask per rank, and the mask of `rank` is in force: this process sees exactly
/// those of its CPUs that the job may use. Masks may overlap. Returns false for ranks that another launcher
/// started inside one of Slurm's tasks.
bool masks_are_in_force(const std::vector<CpuSet>& masks, int ranks, int rank, const CpuSet& seen,
                        const CpuSet& of_job);

}  // namespace zf
