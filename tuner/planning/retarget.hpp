// A plan for another allocation on a machine of the same class. Pure.
#pragma once

#include <vector>

#include "machine/machine.hpp"
#include "machine/ranks.hpp"
#include "plan/plan.hpp"

namespace zf {

struct RetargetWishes {
  bool any_class = false;      ///< go on where the machine is of another class; the plan's warnings say so
  bool for_deepspeed = false;  ///< also where the plan's intent does not ask for it
  std::vector<CpuSet> masks = {};  ///< by rank, what a launcher gave it: its home; empty: all is shared out
};

/// New homes in what is allowed of `present`, one for each of `gpus` and near it, split as the plan intends:
/// its pool, but no larger a share of a smaller home than of the home it was measured in; its placement; its
/// memory tier; the same idle share; still what DeepSpeed can be told, if it was made for that. Provenance
/// and evidence are the plan's own, and so is the workload but for the number of ranks; where that is another
/// one, a warning says what was measured. In the allocation that the plan was made for, the same plan. Throws
/// Error(stale_plan) with every difference when the machine is of another class, Error(infeasible) when there
/// are fewer cores than ranks. `gpus`: see moved_gpus(); never empty.
Plan retarget(const Plan& plan, const Machine& present, const RankGpus& gpus,
              const RetargetWishes& wishes = {});

}  // namespace zf
