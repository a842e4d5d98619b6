// How many ranks this node runs, and which GPU each of them computes on. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "machine/topology.hpp"
#include "os/environment.hpp"
#include "plan/plan.hpp"

namespace zf {

struct RankCount {
  int count = 1;
  std::string source;  ///< "--ranks", "SLURM_NTASKS_PER_NODE", "4 GPUs", "default"
};

/// `given` (--ranks), else what the launcher's variables say, else one per GPU of this machine unless
/// CUDA_VISIBLE_DEVICES or its kin hide them, else 1. The variables and GPUs of this machine say nothing
/// about another one: they are left out unless topology.is_this_machine. Throws Error(usage) with the
/// variable when its value is no number.
RankCount rank_count_of(std::optional<int> given, const Environment& environment, const Topology& topology);

/// By local rank. What is not known is absent, and `notes` says why, one sentence each; nothing is guessed.
struct RankGpus {
  std::vector<std::optional<Gpu>> gpus;
  std::vector<std::string> notes;
};

/// Rank i computes on the i-th GPU that the job sees, as frameworks do with their local rank: of
/// CUDA_VISIBLE_DEVICES or of ROCR_ and HIP_VISIBLE_DEVICES (see visible_devices), else of SLURM_STEP_GPUS or
/// SLURM_JOB_GPUS, else in PCI order. Slurm's numbers are device minors (Gpu::minor) where all GPUs have one,
/// else taken for PCI order; of the GPUs they name, the job sees the first in PCI order first. Other numbers
/// count the GPUs in PCI order; under Slurm's ConstrainDevices, which numbers a step's GPUs anew, those of
/// SLURM_STEP_GPUS. "GPU-…" is looked up in Gpu::uuid, and
/// every UUID in Gpu::aliases. Unknown stay: a UUID found in neither; a number that may count either way; any
/// number where GPUs of several makes are ordered by CUDA's idea of their speed (CUDA_DEVICE_ORDER is not
/// PCI_BUS_ID); ranks beyond the list, and the other ranks where a launcher gave each task a list of its own
/// (under Slurm this one too). The variables say nothing about another machine (see
/// Topology::is_this_machine): PCI order there.
RankGpus rank_gpus(const Environment& environment, const Topology& topology, int ranks);

/// The GPUs of the ranks of a plan that moves to this allocation, the same for every process that asks: those
/// of SLURM_STEP_GPUS (this machine only) where it names enough of them, else the plan's own as far as they
/// are here, and unknown for ranks that the plan has not. A task's own list of visible devices is not asked:
/// each rank would see another one.
RankGpus moved_gpus(const Environment& environment, const Topology& topology, const Plan& plan, int ranks);

}  // namespace zf
