#include "planning/unmeasured_plan.hpp"

#include <algorithm>
#include <utility>

#include "base/format.hpp"
#include "homes/deepspeed_homes.hpp"
#include "homes/rank_homes.hpp"
#include "homes/split.hpp"
#include "planning/assemble.hpp"

namespace zf {
namespace {

/// Returns a pool of as many cores as the largest home has if homes are shared, else half of the smallest
/// one.
SplitShape default_shape(const std::vector<Home>& homes, bool shared) {
  std::size_t cores = homes.front().cores.size();
  for (const Home& home : homes) cores = std::min(cores, home.cores.size());
  std::size_t largest = cores;
  for (const Home& home : homes) largest = std::max(largest, home.cores.size());
  SplitShape shape{std::max(1, static_cast<int>(shared ? largest : cores / 2)), 1, Placement::compact};
  shape.shared = shared;
  return shape;
}

}  // namespace

Plan unmeasured_plan(const Machine& machine, const RankGpus& gpus, const Workload& workload,
                     bool for_deepspeed, std::string command) {
  RankHomes placed = rank_homes(machine, gpus);
  const bool can_share = !for_deepspeed || workload.framework != Framework::superoffload;
  const bool shared = workload.mode == Mode::wait && can_share;
  Split split = split_of(placed.homes, default_shape(placed.homes, shared));

  Choice choice;
  choice.reason =
      shared ? "Nothing was measured. In mode wait the sides take turns, so both use each whole home"
             : "Nothing was measured. Each side gets half of each home, which is DeepSpeed's own default";
  if (machine.allowed.shared_cpus && !shared)
    choice.reason = split.ranks.front().home_cores > 1
                        ? "Nothing was measured. Each side gets half of the threads"
                        : "Nothing was measured. Each side has one thread";
  if (!can_share)
    choice.reason = "Nothing was measured. Each side gets half of each home: SuperOffload always divides it";
  if (for_deepspeed) {
    const std::string objection = deepspeed_objection(split, machine.topology, workload.framework);
    if (objection.empty()) {
      choice.reason += ". DeepSpeed can be told the free choice as it is";
    } else {
      placed = deepspeed_rank_homes(machine, gpus, workload.framework);
      split = split_of(placed.homes, default_shape(placed.homes, shared));
      choice.reason += format_text(
          ". The homes are kept to what DeepSpeed can be told: {}. "
          "What that costs was not measured. DeepSpeed cannot be told the free choice: {}",
          restriction_in_words(placed.homes, machine.allowed), objection);
      for (std::string& sentence : unfair_fast_cores(split, machine.topology, machine.allowed.cpus))
        placed.notes.push_back(std::move(sentence));
    }
  }
  for (const RankSplit& rank : split.ranks) {
    choice.pool_threads = std::max(choice.pool_threads, static_cast<int>(rank.pool.size()));
  }
  Plan plan = assemble(provenance_of(std::move(command)), machine, workload, split, choice, {},
                       machine.topology.missing, std::move(placed.notes));
  plan.intent.for_deepspeed = for_deepspeed;
  record_gpus(gpus, plan);
  return plan;
}

}  // namespace zf
