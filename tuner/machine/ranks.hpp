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

/// Returns the first of these that is known: `given` (--ranks); what the launcher's variables say; one rank
/// per usable GPU, unless CUDA_VISIBLE_DEVICES or a similar variable hides the GPUs; 1. The variables count
/// only if topology.is_this_machine: they do not describe another machine. Throws Error(usage) with the
/// variable if its value is not a number.
RankCount rank_count_of(std::optional<int> given, const Environment& environment, const Topology& topology);

/// The GPU of each local rank. An unknown GPU is absent, and `notes` gives the reason, one sentence each;
/// nothing is guessed.
struct RankGpus {
  std::vector<std::optional<Gpu>> gpus;
  std::vector<std::string> notes;
};

/// Gives rank i the i-th GPU that the job sees, as frameworks do with their local rank.
///
/// The list is the first of these that is set: CUDA_VISIBLE_DEVICES, or ROCR_ and HIP_VISIBLE_DEVICES (see
/// visible_devices; HIP's rules hold if all GPUs are AMD's); SLURM_STEP_GPUS; SLURM_JOB_GPUS. Without a list
/// the GPUs count by their frameworks' numbers (Gpu::framework_number) if all have one, else in PCI order.
/// GPUs that their driver hides do not count.
/// - Slurm's numbers are device minors (Gpu::minor) if all GPUs have one, else places in PCI order. The job
///   sees the GPUs that they name in PCI order.
/// - Numbers of the other variables count all GPUs as without a list. Under Slurm's ConstrainDevices, which
///   numbers a step's GPUs anew, they count those of SLURM_STEP_GPUS.
/// - "GPU-…" is looked up in Gpu::uuid, and every UUID in Gpu::aliases.
///
/// These stay unknown: a UUID that is in neither; a number that may count either way (Slurm's without minors
/// as well, where ROCm's order is not that of PCI); every number if a GPU is divided (Gpu::parts), or if GPUs
/// of different models are ordered by CUDA's estimate of their speed (CUDA_DEVICE_ORDER is not PCI_BUS_ID);
/// ranks beyond the end of the list; the other ranks if a launcher gave each task a list of its own (under
/// Slurm this rank as well). The variables do not describe another machine (see Topology::is_this_machine):
/// there the GPUs count as without a list.
RankGpus rank_gpus(const Environment& environment, const Topology& topology, int ranks);

/// Returns the GPUs of a plan as if they had been found here, by PCI address: for a rank, which does not look
/// for live GPUs. A GPU without CPUs of its own (zf-plan/1) gets those of its NUMA node.
std::vector<Gpu> planned_gpus(const Plan& plan, const Topology& topology);

/// Returns the GPUs of the ranks of a plan that moves to this allocation. Every process that asks gets the
/// same answer: the GPUs of SLURM_STEP_GPUS (on this machine only) if it names enough of them, else the
/// plan's own GPUs as far as they were found here; unknown for ranks that the plan lacks, with the reason if
/// it has any GPU. A note says if the CPUs near GPUs are those of their nodes, because the plan is older
/// (Gpu::by_node). A task's own list of visible devices is not used, because each rank would see another one.
RankGpus moved_gpus(const Environment& environment, const Topology& topology, const Plan& plan, int ranks);

/// Does the same for one process that looks for live GPUs and writes what it finds into the plan
/// (`plan --from` and `trial`). A rank whose planned GPU is not here, or that a plan with GPUs lacks, has the
/// GPU that rank_gpus() gives to it, unless that is another rank's by the plan. A note names the ranks that
/// have another GPU than in the plan.
RankGpus renewed_gpus(const Environment& environment, const Topology& topology, const Plan& plan, int ranks);

}  // namespace zf
