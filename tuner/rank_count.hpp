// How many ranks this node will run, and who says so. Pure.
#pragma once

#include <optional>
#include <string>

#include "os/environment.hpp"
#include "tuner/topology.hpp"

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

}  // namespace zf
