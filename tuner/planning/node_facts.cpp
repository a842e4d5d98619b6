#include "planning/node_facts.hpp"

#include "base/error.hpp"
#include "base/format.hpp"
#include "gpus/moved_gpus.hpp"
#include "gpus/pci_gpus.hpp"
#include "machine/core_speeds.hpp"
#include "machine/fingerprint.hpp"
#include "planning/retarget.hpp"

namespace zf {
namespace {

/// Returns the isolated CPUs of the plan's homes that the plan should not have.
CpuSet unintended_cpus(const Plan& plan, const CpuSet& allowed, const IsolatedCpus& isolated) {
  if (plan.intent.isolated) return {};
  const CpuSet left_out = to_leave_out(allowed, isolated).all();
  CpuSet cpus;
  for (const RankBinding& rank : plan.ranks) cpus |= rank.home.cpus & left_out;
  return cpus;
}

/// Returns what the plan's own job may use: everything in its allocation.
Allowed planned_allowed(const Allocation& planned) {
  Allowed allowed;
  allowed.cpus = planned.cpus;
  allowed.mems = planned.mems;
  allowed.cpu_quota = planned.cpu_quota;
  if (planned.cpu_quota) allowed.cpu_quota_path = "as recorded in the plan";
  allowed.memory_bytes = planned.memory_bytes;
  allowed.shared_cpus = planned.shared_cpus;
  return allowed;
}

}  // namespace

std::optional<std::string> isolated_homes_note(const Plan& plan, const Allowed& allowed,
                                               const IsolatedCpus& isolated) {
  const auto words = isolation_in_words(unintended_cpus(plan, allowed.cpus, isolated), isolated);
  if (!words) return std::nullopt;
  return format_text("{}; `zf-tune plan --from` leaves them out of the homes, or with --isolated keeps them",
                     *words);
}

bool has_gpus_elsewhere(const Plan& plan, const Topology& here) {
  if (has_other_gpus(plan, here)) return true;
  const auto places = gpu_places_of(here);
  return plan.gpus && places && plan.gpus->fingerprint != places->fingerprint;
}

Plan with_facts_of_node(const Plan& plan, const Machine& node, NodeGpus gpus, std::string* why_not) {
  const bool other_gpus = gpus == NodeGpus::looked_at && has_gpus_elsewhere(plan, node.topology);
  const bool as_before = unintended_cpus(plan, plan.allocation.cpus, node.isolated).empty();
  if (as_before && !other_gpus && !has_fast_cores_of_today(node.topology)) return plan;
  Machine planned = node;
  planned.allowed = planned_allowed(plan.allocation);
  planned.allowed.own_by_name = plan.intent.own_cpus;
  planned.keeps_isolated = plan.intent.isolated;
  if (!planned.keeps_isolated) leave_out_isolated(planned.allowed, node.isolated);
  planned.topology.gpus =
      other_gpus ? pci_gpus_named_by(plan, node.topology) : planned_gpus(plan, node.topology);
  try {
    const int ranks = plan.workload.ranks;
    Plan moved = retarget(plan, planned,
                          other_gpus ? renewed_gpus({}, planned.topology, plan, ranks)
                                     : moved_gpus({}, planned.topology, plan, ranks));
    mark_older_evidence(plan, moved);
    return moved;
  } catch (const Error& error) {  // such as fewer cores than ranks
    if (why_not != nullptr)
      *why_not = format_text("the homes are not fitted to this node{}: {}", other_gpus ? "'s GPUs" : "",
                             error.what());
    return plan;
  }
}

}  // namespace zf
