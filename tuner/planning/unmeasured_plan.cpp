#include "planning/unmeasured_plan.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/format.hpp"
#include "base/text.hpp"
#include "homes/deepspeed_homes.hpp"
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

/// Returns "8 cores", or "8 to 10 cores" if ranks differ.
std::string range_in_words(int least, int most, const char* noun) {
  return least == most ? print_count(least, noun) : format_text("{} to {}", least, print_count(most, noun));
}

/// Returns how many cores train in each home and how many run the optimizer; threads, if neighbours share the
/// CPUs.
std::string sides_in_words(const Split& split, bool superoffload) {
  std::vector<int> training;
  std::vector<int> pools;
  bool halves = true;
  for (const RankSplit& rank : split.ranks) {
    if (rank.shared) continue;
    training.push_back(rank.reserved_cores);
    pools.push_back(rank.pool_cores);
    halves = halves && std::abs(rank.reserved_cores - rank.pool_cores) <= 1;
  }
  const bool divides_threads = split.ranks.front().floats;
  if (training.empty()) {
    return divides_threads ? "Each side of a rank has one thread"
                           : "Every home has one core, so both sides share it";
  }
  const auto range = [&](const std::vector<int>& counts) {
    const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
    return std::pair(range_in_words(*least, *most, divides_threads ? "thread" : "core"), *most);
  };
  const auto [train, most_train] = range(training);
  const auto [run, most_run] = range(pools);
  const std::string sides =
      format_text("In each home {} {} and {} {} the optimizer", train, most_train == 1 ? "trains" : "train",
                  run, most_run == 1 ? "runs" : "run");
  const char* const why =
      halves ? "half each, which is DeepSpeed's own default" : "every pool has half of the smallest home";
  return superoffload ? format_text("{}: SuperOffload always divides homes", sides)
                      : format_text("{}: {}", sides, why);
}

}  // namespace

UnmeasuredSplit unmeasured_split(const Machine& machine, const RankGpus& gpus, const Workload& workload,
                                 bool for_deepspeed, const std::vector<CpuSet>& masks) {
  UnmeasuredSplit chosen;
  chosen.ranks = masks.empty() ? rank_homes(machine, gpus) : rank_homes_within(machine, gpus, masks);
  const bool can_share = !for_deepspeed || workload.framework != Framework::superoffload;
  const bool shared = workload.mode == Mode::wait && can_share;
  const auto divide = [&] {
    chosen.split = split_of(chosen.ranks.homes, default_shape(chosen.ranks.homes, shared));
    chosen.reason = format_text("Nothing was measured. {}",
                                shared ? "In mode wait the sides take turns, so both use each whole home"
                                       : sides_in_words(chosen.split, !can_share));
  };
  divide();
  if (!for_deepspeed || !masks.empty()) return chosen;
  const std::string objection = deepspeed_objection(chosen.split, machine.topology, workload.framework);
  if (objection.empty()) {
    chosen.reason += ". DeepSpeed can be told the free choice as it is";
    return chosen;
  }
  chosen.ranks = deepspeed_rank_homes(machine, gpus, workload.framework);
  divide();
  chosen.reason += format_text(
      ". The homes are kept to what DeepSpeed can be told: {}. "
      "What that costs was not measured. DeepSpeed cannot be told the free choice: {}",
      restriction_in_words(chosen.ranks.homes, machine.allowed), objection);
  for (std::string& sentence : unfair_fast_cores(chosen.split, machine.topology, machine.allowed.cpus))
    chosen.ranks.notes.push_back(std::move(sentence));
  return chosen;
}

bool is_unmeasured(const Plan& plan) { return plan.evidence.candidates.empty() && !plan.trial; }

Plan unmeasured_plan(const Machine& machine, const RankGpus& gpus, const Workload& workload,
                     bool for_deepspeed, std::string command) {
  UnmeasuredSplit chosen = unmeasured_split(machine, gpus, workload, for_deepspeed);
  Choice choice;
  choice.reason = std::move(chosen.reason);
  choice.pool_threads = most_pool_threads(chosen.split);
  Plan plan = assemble(provenance_of(std::move(command)), machine, workload, chosen.split, choice, {},
                       machine.topology.missing, std::move(chosen.ranks.notes));
  plan.intent.for_deepspeed = for_deepspeed;
  record_gpus(gpus, plan);
  return plan;
}

}  // namespace zf
