#include "planning/other_homes.hpp"

#include "base/error.hpp"
#include "base/format.hpp"
#include "gpus/moved_gpus.hpp"
#include "homes/home_gain.hpp"
#include "homes/shared_homes.hpp"
#include "planning/retarget.hpp"

namespace zf {

std::optional<std::string> better_homes_note(const Plan& plan, const Machine& machine) {
  Machine planned = machine;
  if (!plan.intent.isolated) leave_out_isolated(planned.allowed, planned.isolated);
  planned.keeps_isolated = plan.intent.isolated;
  if (planned.allowed.cpus != plan.allocation.cpus) return std::nullopt;
  if (plan.allocation.shared_cpus) return std::nullopt;  // its homes are all that the ranks can have
  planned.allowed.shared_cpus = machine.allowed.shared_cpus && !plan.intent.own_cpus;
  if (planned.allowed.shared_cpus) return kPinnedAmongNeighbours;
  planned.topology.gpus = planned_gpus(plan, machine.topology);
  const RankGpus gpus = moved_gpus({}, planned.topology, plan, plan.workload.ranks);
  Plan moved;
  try {
    moved = retarget(plan, planned, gpus);
  } catch (const Error&) {  // this version has no homes for this plan: then it has no better ones
    return std::nullopt;
  }
  std::vector<CpuSet> before;
  std::vector<CpuSet> after;
  for (const RankBinding& rank : plan.ranks) before.push_back(rank.home.cpus);
  for (const RankBinding& rank : moved.ranks) after.push_back(rank.home.cpus);
  const auto gain =
      gain_in_words(score_of_homes(planned, gpus, before), score_of_homes(planned, gpus, after));
  if (!gain) return std::nullopt;
  return format_text(
      "this version would cut the homes of the ranks differently: {}; `zf-tune plan --from` does so", *gain);
}

}  // namespace zf
