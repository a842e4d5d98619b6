// Makes a plan for another allocation on a machine of the same class. Pure.
#pragma once

#include <string>
#include <vector>

#include "gpus/rank_gpus.hpp"
#include "machine/machine.hpp"
#include "plan/plan.hpp"

namespace zf {

struct RetargetOptions {
  bool any_class = false;          ///< accept a machine of another class; the plan's warnings then say so
  bool for_deepspeed = false;      ///< keep to what DeepSpeed can be told, even if the plan's intent does not
  std::vector<CpuSet> masks = {};  ///< by rank, the CPUs that a launcher gave it: its home; empty: all CPUs
                                   ///< are divided
};

/// Throws Error(stale_plan) with every difference if the machine is not of the plan's class. It names --force
/// if the caller has that option.
void need_class_of(const Plan& plan, const Topology& present, bool has_force = false);

/// Returns a plan with new homes in what is allowed of `present`: one for each of `gpus` and near it, split
/// as the plan intends. It keeps the plan's pool, but in a smaller home the pool gets no larger share than in
/// the home it was measured in. It keeps the placement, the memory tier, the idle share, who has the
/// CPUs (own_cpus), and the restriction to what DeepSpeed can be told if the plan was made for it. If nothing
/// was measured for the plan, the split, its reason and the intent are those of unmeasured_plan() here.
/// Provenance, evidence and workload are those of the plan; if the number of ranks changes, the workload has
/// the new number, and a warning says for how many the plan was made. In the allocation that the plan was
/// made for, the result is the same plan.
///
/// Throws as need_class_of() does, and Error(infeasible) if there are fewer cores than ranks. `gpus` comes
/// from moved_gpus() and is never empty.
Plan retarget(const Plan& plan, const Machine& present, const RankGpus& gpus,
              const RetargetOptions& options = {});

/// Returns the warning of a plan that was made for other ranks than it is fitted to, in numbers of them.
std::string other_rank_count(int planned, int present);

/// Adds a warning to a plan that retarget() made of a measured one, if its homes are not those that were
/// measured. The warning names these. It goes away when the plan comes back to them.
void mark_older_evidence(const Plan& measured, Plan& moved);

/// Returns the homes that were measured, "0-7 | 8-15", if the plan has that warning; otherwise "".
std::string other_homes_measured(const Plan& plan);

}  // namespace zf
