#include "tuner/retarget.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "tuner/assemble.hpp"
#include "tuner/fingerprint.hpp"
#include "tuner/rank_homes.hpp"

namespace zf {
namespace {

/// The intent in homes of at least `cores` cores. The knee is where memory bandwidth is saturated: a larger
/// home needs no larger pool. In a smaller one training keeps its share.
SplitShape shape_of(const Intent& intent, int cores) {
  const auto share = [cores](double fraction) { return static_cast<int>(std::lround(fraction * cores)); };
  const int idle = share(intent.idle_fraction);
  SplitShape shape;
  shape.pool_cores = std::max(1, std::min(intent.pool_cores, cores - share(intent.reserved_fraction) - idle));
  shape.pool_pus_per_core = intent.pool_pus_per_core;
  shape.placement = intent.placement;
  shape.pool_kind = intent.pool_kind;
  if (idle > 0) shape.reserved_cores = std::max(1, cores - shape.pool_cores - idle);
  return shape;
}

/// A plan whose state lies in memory without CPUs (--mems) keeps it there, where that is allowed.
Machine with_memory_tier(const Plan& plan, Machine machine) {
  NodeSet planned;
  for (const RankBinding& rank : plan.ranks) planned |= rank.optimizer.mems;
  for (const NumaNode& node : machine.topology.nodes) {
    if (!node.is_cpuless() && planned.contains(node.id)) return machine;
  }
  const NodeSet tier = plan.allocation.mems & machine.allowed.mems;
  if (tier.contains(planned)) machine.allowed.mems = tier;
  return machine;
}

}  // namespace

Plan retarget(const Plan& plan, const Machine& present, const RankGpus& gpus) {
  const auto differences = class_differences(plan.machine, machine_class_of(present.topology));
  if (!differences.empty()) {
    throw Error(Exit::stale_plan,
                fmt::format("the plan is for machines of another class: {}", fmt::join(differences, "; ")),
                "make a plan here with zf-tune, or start anyway with --force");
  }
  const Machine machine = with_memory_tier(plan, present);
  RankHomes ranks = rank_homes(machine, gpus);
  const std::vector<Home>& homes = ranks.homes;
  std::size_t cores = homes.front().cores.size();
  for (const Home& home : homes) cores = std::min(cores, home.cores.size());
  const Split split = split_of(homes, shape_of(plan.intent, static_cast<int>(cores)));

  Choice choice = plan.choice;
  choice.pool_threads = 0;
  for (const RankSplit& rank : split.ranks) {
    choice.pool_threads = std::max(choice.pool_threads, static_cast<int>(rank.pool.size()));
  }
  Plan moved = assemble(plan.made, machine, plan.workload, split, choice, plan.evidence, plan.warnings,
                        std::move(ranks.notes));
  moved.intent = plan.intent;
  moved.trial = plan.trial;
  return moved;
}

}  // namespace zf
