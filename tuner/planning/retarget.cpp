#include "planning/retarget.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.hpp"
#include "homes/deepspeed_homes.hpp"
#include "homes/rank_homes.hpp"
#include "machine/fingerprint.hpp"
#include "planning/assemble.hpp"

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

/// Homes and their split; the latter as the plan intends it.
struct Placed {
  RankHomes ranks;
  Split split;
};

Placed placed(RankHomes ranks, const Intent& intent) {
  std::size_t cores = ranks.homes.front().cores.size();
  for (const Home& home : ranks.homes) cores = std::min(cores, home.cores.size());
  Split split = split_of(ranks.homes, shape_of(intent, static_cast<int>(cores)));
  return {std::move(ranks), std::move(split)};
}

/// Within the masks, if there are any; else free, where that is something DeepSpeed can be told or nobody
/// asks for it.
Placed placed(const Machine& machine, const RankGpus& gpus, const Intent& intent,
              const std::vector<CpuSet>& masks) {
  if (!masks.empty()) return placed(rank_homes_within(machine, gpus, masks), intent);
  Placed free = placed(rank_homes(machine, gpus), intent);
  if (!intent.for_deepspeed || deepspeed_objection(free.split, machine.topology).empty()) return free;
  return placed(deepspeed_rank_homes(machine, gpus), intent);
}

}  // namespace

Plan retarget(const Plan& plan, const Machine& present, const RankGpus& gpus, const RetargetWishes& wishes) {
  const std::string differences =
      fmt::format("{}", fmt::join(class_differences(plan.machine, machine_class_of(present.topology)), "; "));
  if (!differences.empty() && !wishes.any_class) {
    throw Error(Exit::stale_plan, fmt::format("the plan is for machines of another class: {}", differences),
                "make a plan here with zf-tune, or take its shares all the same with --force");
  }
  const Machine machine = with_memory_tier(plan, present);
  Intent intent = plan.intent;
  intent.for_deepspeed = intent.for_deepspeed || wishes.for_deepspeed;
  Placed here = placed(machine, gpus, intent, wishes.masks);

  Choice choice = plan.choice;
  choice.pool_threads = 0;
  for (const RankSplit& rank : here.split.ranks) {
    choice.pool_threads = std::max(choice.pool_threads, static_cast<int>(rank.pool.size()));
  }
  Workload workload = plan.workload;
  workload.ranks = static_cast<int>(gpus.gpus.size());
  std::vector<std::string> warnings = plan.warnings;
  if (workload.ranks != plan.workload.ranks) {
    warnings.push_back(
        fmt::format("made for {} ranks on this node and fitted to {}", plan.workload.ranks, workload.ranks));
  }
  if (!differences.empty()) {
    warnings.push_back(fmt::format("made for machines of another class: {}", differences));
  }
  Plan moved = assemble(plan.made, machine, workload, here.split, choice, plan.evidence, std::move(warnings),
                        std::move(here.ranks.notes));
  moved.intent = intent;
  moved.trial = plan.trial;
  return moved;
}

}  // namespace zf
