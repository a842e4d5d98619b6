// The homes of a node's ranks, near their GPUs and within the CPU quota: what every command starts from.
// Pure.
#pragma once

#include <string>
#include <vector>

#include "homes/homes.hpp"
#include "machine/machine.hpp"
#include "machine/ranks.hpp"

namespace zf {

struct RankHomes {
  std::vector<Home> homes;         ///< by local rank, each with its GPU
  std::vector<std::string> notes;  ///< what the allocation kept from being as it should, one sentence each
};

/// One home for each of `gpus`: on the NUMA node of the rank's GPU, or in its package where the GPU hangs off
/// no single node; elsewhere (see homes_of) for ranks whose GPU or its place is not known. Throws like
/// homes_of().
RankHomes rank_homes(const Machine& machine, const RankGpus& gpus);

/// The same, each within the mask of its rank, of which there are as many as `gpus`, disjoint: what a
/// launcher gave it. Throws Error(infeasible) where nothing of a mask is allowed.
RankHomes rank_homes_within(const Machine& machine, const RankGpus& gpus, const std::vector<CpuSet>& masks);

/// The same of deepspeed_homes(), which no GPU can move.
RankHomes deepspeed_rank_homes(const Machine& machine, const RankGpus& gpus);

}  // namespace zf
