// Makes a plan without measuring: each side gets half of each home, or both share it.
#pragma once

#include <string>
#include <vector>

#include "gpus/rank_gpus.hpp"
#include "homes/rank_homes.hpp"
#include "homes/split.hpp"
#include "machine/machine.hpp"
#include "plan/plan.hpp"

namespace zf {

/// Homes, the split of them that is chosen without measuring, and why, in the split's own numbers.
struct UnmeasuredSplit {
  RankHomes ranks;
  Split split;
  std::string reason;
};

/// Returns one home for each of `gpus` and its split. In mode `wait` the sides take turns, so both share each
/// whole home. In the other modes the pools have half of the smallest home: if homes are equal, that is
/// DeepSpeed's default (pt_reserved_cores_perc 0.5). The pool has one PU per core. With `for_deepspeed`, if
/// DeepSpeed cannot be told the free choice, the homes are those that it can be told, and SuperOffload shares
/// none. With `masks`, the CPUs that a launcher gave to each rank, the homes lie inside them. Throws as
/// rank_homes() does.
UnmeasuredSplit unmeasured_split(const Machine& machine, const RankGpus& gpus, const Workload& workload,
                                 bool for_deepspeed, const std::vector<CpuSet>& masks = {});

/// Returns whether nothing was measured or tried for the plan.
bool is_unmeasured(const Plan& plan);

/// Returns a plan with unmeasured_split() for a workload with as many ranks as `gpus`. `command` goes into
/// the provenance.
Plan unmeasured_plan(const Machine& machine, const RankGpus& gpus, const Workload& workload,
                     bool for_deepspeed, std::string command);

}  // namespace zf
