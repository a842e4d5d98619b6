// How many ranks this node runs. Pure.
#pragma once

#include <optional>
#include <string>

#include "os/environment.hpp"
#include "plan/gpu_share.hpp"
#include "topology/topology.hpp"

namespace zf {

struct RankCount {
  int count = 1;
  std::string source;  ///< what it is from: "--ranks", "SLURM_NTASKS_PER_NODE", "4 GPUs", "default"
};

/// Returns the first of these that is known: `given` (--ranks); what the launcher's variables say; as many
/// ranks as `share` makes of the usable GPUs, or of the entries of CUDA_VISIBLE_DEVICES or a similar variable
/// (countable_list()): one for each if nothing is said; 1. If all that a launcher says is one task of Slurm,
/// Flux or jsrun, two or more GPUs come before it: the one task is usually torchrun or deepspeed, which
/// starts a rank per GPU. The variables count only if topology.is_this_machine: they do not describe another
/// machine. Throws Error(usage) with the variable if its value is not a number, and if `share` contradicts
/// itself, the GPUs or the number of ranks.
RankCount rank_count_of(std::optional<int> given, const Environment& environment, const Topology& topology,
                        GpuShare share = {});

/// Returns a line with the number and its source, such as "4 ranks (4 GPUs; --ranks changes it)". Returns ""
/// if the user gave the number, or if nothing says one.
std::string rank_count_note(const RankCount& ranks);

}  // namespace zf
