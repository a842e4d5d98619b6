// Checks what must hold for every plan, and whether a plan fits this machine and allocation. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "os/allowed.hpp"
#include "os/machine_identity.hpp"
#include "plan/plan.hpp"
#include "plan/violation.hpp"

namespace zf {

/// Returns the first broken invariant of a plan, if any. The invariants: every field keeps its rule
/// (plan_fields.hpp); training and optimizer are disjoint for every rank (equal if shared); ranks are
/// disjoint (if neighbours share the CPUs, homes may overlap, and both sides have the whole home); all CPUs
/// lie in allocation.cpus, which lies in machine.cpus; mems lie in allocation.mems; nothing is empty; ranks
/// are numbered 0, 1, ... in order; counts are positive and match (threads, pool_threads, pt_reserved_cores);
/// samples name known candidates.
std::optional<Violation> find_violation(const Plan& plan);

/// A reason why a valid plan does not fit the present allocation, in words: "CPUs 4-5 of rank 0's optimizer
/// are not allowed here".
using PlanDifference = std::string;

/// Returns all such reasons. The list is empty if every rank of the plan may run here.
std::vector<PlanDifference> differences_from_allowed(const Plan& plan, const Allowed& allowed);

/// Returns how many threads of the plan can run at the same time: for each rank its training threads plus one
/// pool thread per CPU of the pool, but at most the number of its CPUs (in a shared rank both sides have the
/// same ones). Siblings that stay idle do not count. If neighbours share the CPUs and training waits for the
/// step, the sides take turns, and the larger one counts.
std::size_t threads_at_once(const Plan& plan);

/// Returns how many cores the ranks of a plan have together; if neighbours share them, how many CPUs, because
/// a plan does not say which of these are siblings.
std::size_t cores_of_ranks(const Plan& plan);

/// Returns in words how this machine differs from the plan's machine: another CPU model, CPUs of the plan's
/// machine that this one does not have (offline CPUs count as present), or the same CPUs on another number of
/// NUMA nodes. Absent if this machine may be of the plan's class.
std::optional<PlanDifference> foreign_machine(const MachineClass& planned, const MachineIdentity& present);

/// Returns the entry for a local rank. Throws Error(usage) that names the existing ranks if there is none.
const RankBinding& binding_of(const Plan& plan, int rank);

}  // namespace zf
