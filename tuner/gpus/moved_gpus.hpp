// The GPUs of the ranks of a plan that is used on this node. Pure.
#pragma once

#include <optional>
#include <vector>

#include "gpus/rank_gpus.hpp"
#include "os/environment.hpp"
#include "plan/plan.hpp"
#include "topology/topology.hpp"

namespace zf {

/// Returns the GPUs of a plan's ranks, each once, as if they had been found here, by PCI address: for a rank,
/// which does not look for live GPUs. A GPU without CPUs of its own gets those of its NUMA node.
std::vector<Gpu> planned_gpus(const Plan& plan, const Topology& topology);

/// Returns the GPUs of the ranks of a plan that moves to this allocation. Every process that asks gets the
/// same answer: the GPUs of SLURM_STEP_GPUS (on this machine only) if it names enough of them, else the
/// plan's own GPUs as far as they were found here; unknown for ranks that the plan lacks, with the reason if
/// it has any GPU. How many GPUs a rank has, or ranks a GPU, is as in the plan, and so is `spread` for as
/// many ranks. A task's own list of visible devices is not used, because each rank would see another one.
RankGpus moved_gpus(const Environment& environment, const Topology& topology, const Plan& plan, int ranks);

/// Does the same for one process that looks for live GPUs and writes what it finds into the plan
/// (`plan --from` and `trial`). The GPUs of a list of visible devices (visible_devices()) come before the
/// plan's own, if it names a known one for each rank and the plan has any GPU. A rank with a planned GPU that
/// is not here or not usable, or that a plan with GPUs lacks, has the GPU that rank_gpus() gives to it,
/// unless that is another rank's by the plan. A note names the ranks that have another GPU than in the plan.
/// If `said` is given and not the plan's, or if no rank of the plan has a GPU and this node has GPUs where
/// the plan's had none (Plan::gpus), the GPUs are those of rank_gpus().
RankGpus renewed_gpus(const Environment& environment, const Topology& topology, const Plan& plan, int ranks,
                      GpuShare said = {});

}  // namespace zf
