// Which GPU each rank computes on. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "machine/gpu_lookup.hpp"
#include "machine/topology.hpp"
#include "os/environment.hpp"

namespace zf {

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
/// Slurm this rank as well); GPUs of a vendor whose own list is set (unread_list()). The variables do not
/// describe another machine (see Topology::is_this_machine): there the GPUs count as without a list.
RankGpus rank_gpus(const Environment& environment, const Topology& topology, int ranks);

/// GPUs by rank, each with its own reason if it is unknown; absent: there is no GPU to name.
using FoundGpus = std::vector<std::optional<GpuOrReason>>;

/// Finds the GPU of each rank as rank_gpus() promises.
FoundGpus found_gpus(const Environment& environment, const Topology& topology, int ranks);

/// Collects the GPUs, with one note for all ranks that have the same reason.
RankGpus to_rank_gpus(const FoundGpus& found);

}  // namespace zf
