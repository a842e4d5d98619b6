// The homes of a node's ranks, near their GPUs and within the CPU quota. Every command starts from these.
// Pure.
#pragma once

#include <string>
#include <vector>

#include "gpus/rank_gpus.hpp"
#include "homes/homes.hpp"
#include "machine/machine.hpp"
#include "plan/workload.hpp"

namespace zf {

struct RankHomes {
  std::vector<Home> homes;         ///< by local rank, each with its GPU
  std::vector<std::string> notes;  ///< in what the allocation falls short, one sentence each
};

/// Returns the place where each rank should live: on the CPUs near its GPUs, and near any of several.
std::vector<Preference> preferences_of(const Machine& machine, const RankGpus& gpus);

/// Returns one home for each of `gpus`: on the CPUs near the rank's GPU, which may be a part of a NUMA node
/// (one L3 group of an MI250X node), else on its node, else in its package. If its GPU or the location of
/// that is unknown, a rank gets a home elsewhere (see homes_of). If neighbours share the CPUs, the homes are
/// those of shared_homes(). Throws like homes_of().
RankHomes rank_homes(const Machine& machine, const RankGpus& gpus);

/// Does the same with each home inside the mask that a launcher gave its rank. There are as many masks as
/// `gpus`. Ranks with one mask divide it among themselves, and masks that overlap are divided as mask_parts()
/// does. Leaves out isolated CPUs, unless the machine keeps them or a mask has no others. Throws
/// Error(infeasible) if no CPU of a mask is allowed, or if ranks have fewer cores in their masks than they
/// are.
RankHomes rank_homes_within(const Machine& machine, const RankGpus& gpus, const std::vector<CpuSet>& masks);

/// Does the same with the homes of deepspeed_homes(), which do not depend on GPUs. Throws Error(infeasible)
/// too if neighbours share the CPUs.
RankHomes deepspeed_rank_homes(const Machine& machine, const RankGpus& gpus,
                               Framework framework = Framework::unknown);

}  // namespace zf
