// Makes a plan without measuring: each side gets half of each home, or both share it.
#pragma once

#include <string>

#include "machine/machine.hpp"
#include "machine/rank_gpus.hpp"
#include "plan/plan.hpp"

namespace zf {

/// Returns a plan for a workload with as many ranks as `gpus`. In mode `wait` the sides take turns, so both
/// share each whole home. In the other modes the plan has the split that DeepSpeed makes by default
/// (pt_reserved_cores_perc 0.5). The pool has one PU per core. With `for_deepspeed`, if DeepSpeed cannot be
/// told the free choice, the homes are those that it can be told, and SuperOffload shares none. `command`
/// goes into the provenance. Throws as rank_homes() does.
Plan unmeasured_plan(const Machine& machine, const RankGpus& gpus, const Workload& workload,
                     bool for_deepspeed, std::string command);

}  // namespace zf
