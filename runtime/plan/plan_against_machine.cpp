// Compares a valid plan with the present machine and allocation (plan_check.hpp).

#include <algorithm>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "plan/plan_check.hpp"

namespace zf {
namespace {

/// Returns a text like "CPUs 4-5 of rank 0's optimizer are not allowed here (4-5: offline)", or nothing if
/// all are allowed.
std::optional<PlanDifference> cpu_difference(const CpuSet& cpus, int rank, std::string_view side,
                                             const Allowed& allowed) {
  const CpuSet gone = cpus - allowed.cpus;
  if (gone.empty()) return std::nullopt;
  CpuSet unexplained = gone;
  std::string why;
  for (const Exclusion& exclusion : allowed.exclusions) {
    const CpuSet here = gone & exclusion.cpus;
    if (here.empty()) continue;
    why += format_text("{}{}: {}", why.empty() ? "" : "; ", print(here), exclusion.detail);
    unexplained = unexplained - here;
  }
  if (!unexplained.empty()) {
    why += format_text("{}{}: this machine has no such CPU", why.empty() ? "" : "; ", print(unexplained));
  }
  return format_text("CPU{} {} of rank {}'s {} {} not allowed here ({})", gone.size() == 1 ? "" : "s",
                     print(gone), rank, side, gone.size() == 1 ? "is" : "are", why);
}

}  // namespace

std::vector<PlanDifference> differences_from_allowed(const Plan& plan, const Allowed& allowed) {
  std::vector<PlanDifference> differences;
  for (const RankBinding& rank : plan.ranks) {
    for (const auto& [side, cpus] :
         {std::pair("training", &rank.training.cpus), std::pair("optimizer", &rank.optimizer.cpus)}) {
      if (auto difference = cpu_difference(*cpus, rank.rank, side, allowed))
        differences.push_back(*difference);
    }
    if (const NodeSet gone = rank.optimizer.mems - allowed.mems; !gone.empty()) {
      differences.push_back(
          format_text("NUMA node{} {} of rank {}'s optimizer {} not allowed here (allowed: {})",
                      gone.size() == 1 ? "" : "s", print(gone), rank.rank, gone.size() == 1 ? "is" : "are",
                      allowed.mems.empty() ? "none" : print(allowed.mems)));
    }
  }
  return differences;
}

std::size_t threads_at_once(const Plan& plan) {
  std::size_t threads = 0;
  for (const RankBinding& rank : plan.ranks) {
    const auto training = static_cast<std::size_t>(rank.training.threads);
    const auto pool = static_cast<std::size_t>(pool_threads(rank.optimizer));
    const bool take_turns = plan.allocation.shared_cpus && plan.workload.mode == Mode::wait;
    const std::size_t wanted = take_turns ? std::max(training, pool) : training + pool;
    threads += std::min(wanted, rank.both_sides().size());
  }
  return threads;
}

std::size_t cores_of_ranks(const Plan& plan) {
  std::size_t cores = 0;
  CpuSet homes;
  for (const RankBinding& rank : plan.ranks) {
    cores += static_cast<std::size_t>(rank.home.threads);
    homes |= rank.home.cpus;
  }
  return plan.allocation.shared_cpus ? homes.size() : cores;
}

std::optional<PlanDifference> foreign_machine(const MachineClass& planned, const MachineIdentity& present) {
  if (!planned.model.empty() && !present.cpu_model.empty() && planned.model != present.cpu_model) {
    return format_text("CPU model: {} in the plan, {} here", planned.model, present.cpu_model);
  }
  if (const CpuSet gone = planned.cpus - present.present; !present.present.empty() && !gone.empty()) {
    return format_text("CPU{} {} in the plan, {} here", planned.cpus.size() == 1 ? "" : "s",
                       print(planned.cpus), print(present.present));
  }
  // A node with all CPUs offline does not count as one with CPUs, so compare only if the same CPUs are
  // online.
  if (planned.numa_nodes > 0 && present.numa_nodes > 0 && planned.cpus == present.online &&
      planned.numa_nodes != present.numa_nodes) {
    return format_text(
        "NUMA nodes with CPUs: {} in the plan, {} here "
        "(the firmware's NUMA mode differs: NPS or sub-NUMA clustering)",
        planned.numa_nodes, present.numa_nodes);
  }
  return std::nullopt;
}

const RankBinding& binding_of(const Plan& plan, int rank) {
  const auto found = std::find_if(plan.ranks.begin(), plan.ranks.end(),
                                  [&](const RankBinding& r) { return r.rank == rank; });
  if (found == plan.ranks.end()) {
    throw Error(Exit::usage,
                plan.ranks.size() == 1
                    ? format_text("rank {}: the plan has rank 0 only", rank)
                    : format_text("rank {}: the plan has ranks 0-{}", rank, plan.ranks.size() - 1),
                format_text("make a plan for more local ranks (zf-tune --ranks {}), or name another rank",
                            std::max(1, rank + 1)));
  }
  return *found;
}

}  // namespace zf
