// A plan for another allocation on a machine of the same class. Pure.
#pragma once

#include "plan/plan.hpp"
#include "tuner/machine.hpp"
#include "tuner/rank_gpus.hpp"

namespace zf {

/// New homes for the plan's ranks in what is allowed of `present`, near `gpus`, split as the plan intends:
/// its pool, but no larger a share of a smaller home than of the home it was measured in; its placement; its
/// memory tier; the same idle share. Provenance, workload and evidence are the plan's own. In the allocation
/// that the plan was made for, the same plan. Throws Error(stale_plan) with every difference when the machine
/// is of another class, Error(infeasible) when there are fewer cores than ranks. `gpus`: see moved_gpus().
Plan retarget(const Plan& plan, const Machine& present, const RankGpus& gpus);

}  // namespace zf
