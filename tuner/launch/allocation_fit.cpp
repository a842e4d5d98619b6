#include "launch/allocation_fit.hpp"

#include <algorithm>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "plan/plan_check.hpp"

namespace zf {
namespace {

/// Returns true if a CPU quota that is not the plan's covers fewer CPUs than the plan runs threads.
bool has_small_new_quota(const Plan& plan, const Allowed& allowed) {
  return allowed.cpu_quota && allowed.cpu_quota != plan.allocation.cpu_quota &&
         *allowed.cpu_quota < static_cast<double>(threads_at_once(plan));
}

}  // namespace

AllocationFit allocation_fit_of(const Plan& plan, int ranks, const Allowed& seen, const Allowed& of_job,
                                const CpuSet& isolated) {
  const bool as_many = ranks == static_cast<int>(plan.ranks.size()) && !has_small_new_quota(plan, seen);
  const auto is_seen = [&](const RankBinding& binding) { return plan_applies_to_rank(binding, seen); };
  if (as_many && std::all_of(plan.ranks.begin(), plan.ranks.end(), is_seen)) return AllocationFit::as_planned;
  if (ranks == 1) return AllocationFit::new_homes;
  if (seen.cpus != of_job.cpus - (isolated - seen.cpus)) return AllocationFit::ambiguous;
  if (!as_many) return AllocationFit::new_homes;
  const auto touched = std::count_if(plan.ranks.begin(), plan.ranks.end(), [&](const RankBinding& binding) {
    return seen.cpus.intersects(binding.home.cpus);
  });
  return touched == 0 || touched == ranks ? AllocationFit::new_homes : AllocationFit::ambiguous;
}

bool plan_applies_to_rank(const RankBinding& binding, const Allowed& allowed) {
  return allowed.cpus.contains(binding.home.cpus) && allowed.mems.contains(binding.optimizer.mems);
}

void need_plan_applies_to_rank(const RankBinding& binding, const Allowed& allowed, LaunchedBy by) {
  if (plan_applies_to_rank(binding, allowed)) return;
  const CpuSet lost = binding.home.cpus - allowed.cpus;
  const NodeSet lost_mems = binding.optimizer.mems - allowed.mems;
  const std::string difference =
      lost.empty()
          ? format_text("the plan's memory {} of rank {} {} not allowed here (allowed: {})",
                        print_nodes(lost_mems), binding.rank, lost_mems.size() == 1 ? "is" : "are",
                        print(allowed.mems))
          : format_text("the plan's {} of rank {} {} not allowed here (allowed: {})", print_cpus(lost),
                        binding.rank, lost.size() == 1 ? "is" : "are", print(allowed.cpus));
  throw Error(Exit::stale_plan, difference,
              format_text("make a plan here with zf-tune{}",
                          by == LaunchedBy::exec ? ", or start anyway with --force" : ""));
}

}  // namespace zf
