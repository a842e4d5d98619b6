// The CPUs that Slurm's task/affinity has given to each task of a step. Pure.
#pragma once

#include <vector>

#include "base/id_set.hpp"
#include "os/environment.hpp"

namespace zf {

/// By local rank, what SLURM_CPU_BIND_TYPE and SLURM_CPU_BIND_LIST say: hexadecimal masks after "mask_cpu:"
/// (which
/// --cpu-bind=cores and the like become), CPU numbers after "map_cpu:". Empty where Slurm binds nothing, or
/// says nothing that can be read.
std::vector<CpuSet> slurm_masks(const Environment& environment);

/// Whether these are CPUs of its own for each of so many ranks, and the one at `rank` is obeyed: of what the
/// job may use, this process sees just that. Not so for ranks that another launcher has started within one of
/// Slurm's tasks.
bool are_one_for_each(const std::vector<CpuSet>& masks, int ranks, int rank, const CpuSet& seen,
                      const CpuSet& of_job);

}  // namespace zf
