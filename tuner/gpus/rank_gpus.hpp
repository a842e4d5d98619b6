// Which GPUs each rank computes on. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "gpus/gpu_lookup.hpp"
#include "os/environment.hpp"
#include "plan/gpu_share.hpp"
#include "topology/topology.hpp"

namespace zf {

/// The GPUs of each local rank. An unknown GPU is absent, and `notes` gives the reason, one sentence each;
/// nothing is guessed.
struct RankGpus {
  std::vector<std::optional<Gpu>> gpus;  ///< by rank the GPU, or the first of several
  std::vector<std::string> notes;        ///< also says which GPUs have no rank
  GpuShare share = {};
  std::vector<std::vector<Gpu>> more = {};  ///< by rank the GPUs after the first; empty: no rank has any
  /// By rank, the GPU that the rank could have instead, so that the ranks are spread over the packages
  /// (spread.hpp); empty: spreading gains nothing.
  std::vector<Gpu> spread = {};
  std::string spread_note = {};  ///< the offer in words, which holds if is_spread_near()
};

/// Returns true if there are GPUs to spread the ranks over, and each has an allowed CPU near it.
bool is_spread_near(const RankGpus& gpus, const CpuSet& allowed);

/// Returns the GPUs of a rank as one place: the first of them, with the CPUs near any, and the node if that
/// is the same for all. Returns nothing if they are not known.
std::optional<Gpu> place_of_gpus(const RankGpus& gpus, std::size_t rank);

/// Gives rank i the i-th GPU that the job sees, as frameworks do with their local rank. With
/// share.gpus_per_rank rank i gets the i-th group of as many GPUs; with share.ranks_per_gpu as many ranks in
/// a row get the same one.
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
/// as well, where ROCm's order is not that of PCI); every number if a GPU is divided (Gpu::parts), unless
/// share.ranks_per_gpu makes each part a device (GpuLookup), or if GPUs of different models are ordered by
/// CUDA's estimate of their speed (CUDA_DEVICE_ORDER is not PCI_BUS_ID); all GPUs if there are fewer than the
/// ranks need; the other ranks' if a launcher gave each task a list of its own (under Slurm this rank's as
/// well); GPUs of a vendor with its own list set (unread_list()). The variables do not describe another
/// machine (see Topology::is_this_machine): there the GPUs count as without a list.
RankGpus rank_gpus(const Environment& environment, const Topology& topology, int ranks, GpuShare share = {});

/// GPUs by rank, and for each rank as many as it has (GpuShare::gpus_of_rank()).
using FoundGpus = std::vector<FoundGpu>;

/// Returns true if the GPU of each place is known.
bool all_known(const FoundGpus& found);

/// Finds the GPUs of each rank as rank_gpus() promises.
FoundGpus found_gpus(const Environment& environment, const Topology& topology, int ranks,
                     GpuShare share = {});

/// Collects the GPUs by rank, with one note for all ranks that have the same reason. A rank has its GPUs only
/// if all are known.
RankGpus to_rank_gpus(const FoundGpus& found, GpuShare share = {});

/// Adds to the notes how many GPUs have no rank, and to `spread` what spreads the ranks over packages.
/// Precondition: the GPUs are those of found_gpus().
void note_unused_gpus(const Environment& environment, const Topology& topology, RankGpus& ranks);

}  // namespace zf
