// Tells whether a plan fits the CPUs and nodes that are allowed here. Pure.
#pragma once

#include "base/id_set.hpp"
#include "launch/launched_by.hpp"
#include "os/allowed.hpp"
#include "plan/plan.hpp"

namespace zf {

/// How a plan fits the CPUs that a rank sees.
enum class AllocationFit {
  as_planned,  ///< every rank gets the home that it has in the plan
  new_homes,   ///< all ranks compute new homes from the CPUs that they see
  ambiguous,   ///< the CPUs may be the job's or this rank's alone, and the ranks would not agree
};

/// Returns how a plan fits. Each rank asks alone, and all ranks must act alike although each may see other
/// CPUs. `seen` is what this process may use, and `of_job` the same without its affinity mask. `isolated` are
/// the CPUs of isolcpus=: init's mask lacks them, so it is no choice of the user that a mask lacks them too.
/// - If `seen` has the homes of all ranks, the plan holds as planned: unless the number of ranks differs, or
///   a CPU quota that is not the plan's covers fewer CPUs than the plan runs threads.
/// - Otherwise it is ambiguous for several ranks if the affinity mask takes CPUs away: it may be the job's
///   mask, or one that a launcher gave this rank. It is also ambiguous if `seen` has CPUs of some homes and
///   none of others.
/// - Otherwise the ranks need new homes.
/// docs/launch.md has the table.
AllocationFit allocation_fit_of(const Plan& plan, int ranks, const Allowed& seen, const Allowed& of_job,
                                const CpuSet& isolated);

/// Returns true if all CPUs of the rank's home and all nodes of its optimizer are allowed.
bool plan_applies_to_rank(const RankBinding& binding, const Allowed& allowed);

/// Throws Error(stale_plan) that names the CPUs or nodes that are not allowed, unless plan_applies_to_rank().
void need_plan_applies_to_rank(const RankBinding& binding, const Allowed& allowed, LaunchedBy by);

}  // namespace zf
