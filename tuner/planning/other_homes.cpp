#include "planning/other_homes.hpp"

#include <cstdlib>
#include <vector>

#include "base/error.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "gpus/moved_gpus.hpp"
#include "homes/home_score.hpp"
#include "homes/index.hpp"
#include "homes/rank_homes.hpp"
#include "homes/shared_homes.hpp"
#include "planning/retarget.hpp"

namespace zf {
namespace {

/// Returns the score of homes for the ranks of `gpus`. CPUs that are not allowed do not count.
HomeScore score_of_homes(const Machine& machine, const RankGpus& gpus, const std::vector<CpuSet>& homes) {
  const Domains domains = domains_of(machine.topology, machine.allowed.cpus, preferences_of(machine, gpus));
  Division division(homes.size());
  for (std::size_t rank = 0; rank < homes.size(); ++rank) {
    for (int core = 0; core < static_cast<int>(domains.cores.size()); ++core) {
      if (homes[rank].intersects(domains.cores[at(core)].cpus)) division[rank].push_back(core);
    }
  }
  return score_of(domains, division);
}

/// Returns the most important point in which `after` is better, in words with both numbers; nothing if it is
/// no better: "the worst rank has cores of 2 NUMA nodes, and could have cores of 1".
std::optional<std::string> gain_in_words(const HomeScore& before, const HomeScore& after) {
  for (std::size_t point = 0; point < kHomePoints.size(); ++point) {
    const HomePointWords& words = kHomePoints[point];
    const std::vector<int>& old = before.points[point];
    const std::vector<int>& now = after.points[point];
    // The lists begin with the worst rank. The first difference is the worst rank for which something
    // changes.
    for (std::size_t i = 0; i < old.size(); ++i) {
      if (old[i] == now[i]) continue;
      if (now[i] > old[i]) return std::nullopt;
      return format_text(
          "{} has {}", i == 0 ? "the worst rank" : "one rank",
          format_text(fmt::runtime(words.gain), print_count(std::abs(old[i]), words.noun), std::abs(now[i])));
    }
  }
  return std::nullopt;
}

}  // namespace

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
