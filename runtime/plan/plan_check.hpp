// What must hold of every plan, whoever made it, and whether it fits where we are now. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "os/allowed.hpp"
#include "os/machine_identity.hpp"
#include "plan/plan.hpp"

namespace zf {

/// A broken invariant: the field ("ranks[1].optimizer.cpus") and what is wrong with it.
struct Violation {
  std::string field;
  std::string what;
};

/// The first broken invariant of a plan, if any: training and optimizer disjoint for every rank (unless
/// shared, when they are equal); ranks disjoint; everything inside allocation.cpus, and that inside
/// machine.cpus; mems inside allocation.mems; nothing empty; ranks numbered 0.. in order; counts positive
/// and matching (threads, pool_threads, pt_reserved_cores); samples naming known candidates.
std::optional<Violation> find_violation(const Plan& plan);

/// One way in which a sound plan does not fit the present allocation, in words ("CPUs 4-5 of rank 0's
/// optimizer are not allowed here").
using Difference = std::string;

/// Empty: every rank of the plan may run here.
std::vector<Difference> differences_from_allowed(const Plan& plan, const Allowed& allowed);

/// How many threads of the plan can run at once: a training thread each, a pool thread on each of the pool's
/// CPUs, and never more than there are CPUs (a shared rank has both sides on the same ones). Siblings that
/// stay idle take no time.
std::size_t threads_at_once(const Plan& plan);

/// How this machine is another one than the plan's, in words, as far as a glance tells: another CPU model,
/// CPUs that the plan's machine had and this one has not, offline ones aside. Absent: it may be of the plan's
/// class.
std::optional<Difference> foreign_machine(const MachineClass& planned, const MachineIdentity& present);

/// The entry for a local rank. Throws Error(usage) that names the ranks there are.
const RankBinding& binding_of(const Plan& plan, int rank);

}  // namespace zf
