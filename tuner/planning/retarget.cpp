#include "planning/retarget.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "homes/deepspeed_homes.hpp"
#include "homes/rank_homes.hpp"
#include "machine/fingerprint.hpp"
#include "planning/assemble.hpp"
#include "planning/unmeasured_plan.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

/// The sizes that the intent was made for.
struct PlannedHomes {
  std::map<int, int> pools;  ///< by the cores of a home: those of its pool
  int smallest = 0;          ///< cores of the plan's smallest home
  bool whole = false;        ///< the optimizer of each rank has all cores of its home
};

/// Returns the shape that carries out the intent in a home of `cores` cores. A home as large as one of the
/// plan has a pool like that one's: pools differ where a control computed each from its own home. A larger
/// home needs no larger pool: the one that was chosen hides its step, or uses the memory's bandwidth. Only a
/// pool that shared all of a home does so again. In a home that is smaller than those of the plan training
/// keeps its share.
SplitShape shape_of(const Intent& intent, int cores, const PlannedHomes& planned) {
  const auto share = [cores](double fraction) { return static_cast<int>(std::lround(fraction * cores)); };
  const int idle = share(intent.idle_fraction);
  SplitShape shape;
  shape.shared = intent.shared;
  const int training = cores < planned.smallest ? share(intent.reserved_fraction) : 0;
  shape.pool_cores = std::max(1, std::min(intent.pool_cores, cores - training - idle));
  if (const auto same = planned.pools.find(cores); same != planned.pools.end())
    shape.pool_cores = same->second;
  if (planned.whole) shape.pool_cores = cores;
  shape.pool_pus_per_core = intent.pool_pus_per_core;
  shape.placement = intent.placement;
  shape.pool_make = intent.pool_make;
  if (idle > 0) shape.reserved_cores = std::max(1, cores - shape.pool_cores - idle);
  return shape;
}

/// Returns the machine with its allowed nodes cut to the plan's memory tier. A plan with its state in
/// memory without CPUs (--mems) keeps it there if that is allowed; for any other plan the machine stays as it
/// is.
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

/// Returns how many cores of a home run its pool; its threads, if neighbours share the CPUs.
int pool_cores_of(const RankBinding& rank, const Topology& topology) {
  if (rank.optimizer.threads) return *rank.optimizer.threads;
  return static_cast<int>(std::count_if(topology.cores.begin(), topology.cores.end(), [&](const Core& core) {
    return core.cpus.intersects(rank.optimizer.cpus);
  }));
}

/// Precondition: the machine is of the plan's class, or `topology` is null.
PlannedHomes planned_homes(const Plan& plan, const Topology* topology) {
  PlannedHomes planned;
  for (const RankBinding& rank : plan.ranks) {
    if (topology != nullptr) planned.pools.emplace(rank.home.threads, pool_cores_of(rank, *topology));
  }
  planned.smallest = plan.ranks.front().home.threads;
  for (const RankBinding& rank : plan.ranks) planned.smallest = std::min(planned.smallest, rank.home.threads);
  planned.whole =
      plan.intent.shared && std::all_of(plan.ranks.begin(), plan.ranks.end(), [](const RankBinding& rank) {
        return pool_threads(rank.optimizer) >= rank.home.threads;
      });
  return planned;
}

/// Homes and the split of them that the plan intends.
struct HomesAndSplit {
  RankHomes ranks;
  Split split;
  std::string reason = {};  ///< empty: that of the plan
};

/// Splits each home by the shape for its own size: the pool of a large home is not cut to a small one's.
HomesAndSplit split_by_intent(RankHomes ranks, const Intent& intent, const PlannedHomes& planned) {
  const auto shape_for = [&](const Home& home) {
    return shape_of(intent, static_cast<int>(home.cores.size()), planned);
  };
  Split split = split_of(ranks.homes, shape_for(ranks.homes.front()));
  for (std::size_t rank = 0; rank < ranks.homes.size(); ++rank)
    split.ranks[rank] = split_home(ranks.homes[rank], shape_for(ranks.homes[rank]));
  return {std::move(ranks), std::move(split)};
}

/// Makes homes inside the masks, if there are any. Else it chooses them freely, unless DeepSpeed must be told
/// the split and cannot be told this one: then it makes homes that DeepSpeed can be told.
HomesAndSplit place(const Machine& machine, const RankGpus& gpus, const Intent& intent,
                    const PlannedHomes& planned, const std::vector<CpuSet>& masks) {
  if (!masks.empty()) return split_by_intent(rank_homes_within(machine, gpus, masks), intent, planned);
  HomesAndSplit free = split_by_intent(rank_homes(machine, gpus), intent, planned);
  if (!intent.for_deepspeed || deepspeed_objection(free.split, machine.topology).empty()) return free;
  HomesAndSplit cut = split_by_intent(deepspeed_rank_homes(machine, gpus), intent, planned);
  for (std::string& sentence : unfair_fast_cores(cut.split, machine.topology, machine.allowed.cpus))
    cut.ranks.notes.push_back(std::move(sentence));
  return cut;
}

/// Returns how the machine differs from the plan's class, on one line; "" if it is of that class.
std::string differences_of_class(const Plan& plan, const Topology& present) {
  return join_text(class_differences(plan.machine, machine_class_of(present)), "; ");
}

constexpr std::string_view kOtherHomes = "the measurements were made on other homes: ";

bool tells_other_homes(const std::string& warning) { return warning.starts_with(kOtherHomes); }

[[noreturn]] void throw_foreign_class(const std::string& differences, bool has_force) {
  throw Error(Exit::stale_plan, format_text("the plan is for machines of another class: {}", differences),
              format_text("make a plan here with zf-tune{}",
                          has_force ? ", or use this plan's shares anyway with --force" : ""));
}

}  // namespace

void need_class_of(const Plan& plan, const Topology& present, bool has_force) {
  const std::string differences = differences_of_class(plan, present);
  if (!differences.empty()) throw_foreign_class(differences, has_force);
}

Plan retarget(const Plan& plan, const Machine& present, const RankGpus& gpus,
              const RetargetOptions& options) {
  const std::string differences = differences_of_class(plan, present.topology);
  if (!options.any_class && !differences.empty()) throw_foreign_class(differences, true);
  const Machine machine = with_memory_tier(plan, present);
  Intent intent = plan.intent;
  intent.for_deepspeed = intent.for_deepspeed || options.for_deepspeed;
  intent.isolated = intent.isolated || present.keeps_isolated;
  Workload workload = plan.workload;
  workload.ranks = static_cast<int>(gpus.gpus.size());
  HomesAndSplit here;
  if (is_unmeasured(plan)) {  // there is nothing to keep: the split is chosen anew
    UnmeasuredSplit fresh = unmeasured_split(machine, gpus, workload, intent.for_deepspeed, options.masks);
    here = {std::move(fresh.ranks), std::move(fresh.split), std::move(fresh.reason)};
  } else {
    here = place(machine, gpus, intent,
                 planned_homes(plan, differences.empty() ? &present.topology : nullptr), options.masks);
  }

  Choice choice = plan.choice;
  if (!here.reason.empty()) choice.reason = here.reason;
  const bool same_sizes = here.split.ranks.front().pool_cores == plan.intent.pool_cores &&
                          here.split.ranks.front().home_cores == plan.ranks.front().home.threads;
  if (!same_sizes) choice.headroom.reset();
  choice.pool_threads = most_pool_threads(here.split);
  std::vector<std::string> warnings = plan.warnings;
  if (workload.ranks != plan.workload.ranks) {
    warnings.push_back(other_rank_count(plan.workload.ranks, workload.ranks));
  }
  if (!differences.empty()) {
    warnings.push_back(format_text("made for machines of another class: {}", differences));
  }
  Plan moved = assemble(plan.made, machine, workload, here.split, choice, plan.evidence, std::move(warnings),
                        std::move(here.ranks.notes));
  if (is_unmeasured(plan)) {
    moved.intent.for_deepspeed = intent.for_deepspeed;
    moved.intent.isolated = intent.isolated;
    moved.intent.own_cpus = intent.own_cpus;
    moved.intent.state_format = intent.state_format;
  } else {
    moved.intent = intent;
  }
  record_gpus(gpus, moved);
  moved.trial = plan.trial;
  return moved;
}

std::string other_rank_count(int planned, int present) {
  return format_text("made for {} on this node and fitted to {}", print_count(planned, "rank"), present);
}

void mark_older_evidence(const Plan& measured, Plan& moved) {
  if (measured.evidence.candidates.empty()) return;
  const auto warning = [&](const Plan& plan) {
    std::vector<std::string> homes;
    for (const RankBinding& rank : plan.ranks) homes.push_back(print(rank.home.cpus));
    return format_text("{}{}", kOtherHomes, join_text(homes, " | "));
  };
  const auto older = std::find_if(moved.warnings.begin(), moved.warnings.end(), tells_other_homes);
  if (older == moved.warnings.end()) {
    if (warning(measured) != warning(moved)) moved.warnings.push_back(warning(measured));
  } else if (*older == warning(moved)) {
    moved.warnings.erase(older);
  }
}

std::string other_homes_measured(const Plan& plan) {
  const auto warning = std::find_if(plan.warnings.begin(), plan.warnings.end(), tells_other_homes);
  return warning == plan.warnings.end() ? "" : warning->substr(kOtherHomes.size());
}

}  // namespace zf
