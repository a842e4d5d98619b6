#include "planning/assemble.hpp"

#include <ctime>
#include <string_view>

#include "base/format.hpp"
#include "base/version.hpp"
#include "gpus/spread.hpp"
#include "homes/split.hpp"
#include "machine/fingerprint.hpp"
#include "os/host_name.hpp"

namespace zf {
namespace {

Intent intent_of(const Split& split) {
  int reserved = 0;
  int idle = 0;
  int all = 0;
  for (const RankSplit& rank : split.ranks) {
    reserved += rank.reserved_cores;
    idle += rank.idle_cores;
    all += rank.home_cores;
  }
  Intent intent;
  intent.placement = split.shape.placement;
  intent.pool_pus_per_core = split.shape.pool_pus_per_core;
  intent.pool_cores = split.ranks.front().pool_cores;
  intent.reserved_fraction = static_cast<double>(reserved) / all;
  intent.idle_fraction = static_cast<double>(idle) / all;
  intent.pool_make = split.shape.pool_make;
  intent.shared = split.shape.shared;
  return intent;
}

/// Returns one sentence for all ranks with a home of one core.
std::string one_core_note(const std::vector<std::size_t>& ranks) {
  const std::string who = ranks.size() == 1
                              ? format_text("rank {} has one core", ranks.front())
                              : format_text("ranks {} have one core each", join_text(ranks, ","));
  return format_text(
      "{}: training and optimizer share it and will slow each other; ask for at least two cores per rank",
      who);
}

/// Returns the time in UTC, as ISO 8601 writes it.
std::string time_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc = {};
  ::gmtime_r(&now, &utc);
  return format_text("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                     utc.tm_hour, utc.tm_min, utc.tm_sec);
}

/// Lets the reason of the choice say that neighbours share the CPUs, or takes that sentence out of a reason
/// that came with the plan from elsewhere.
void say_who_shares(Plan& plan) {
  constexpr std::string_view kWords =
      ". Neighbours share these CPUs, so no thread is pinned to a few of them: both sides of a rank may run "
      "on all CPUs of its home. Where cores are counted, threads are meant";
  std::string& reason = plan.choice.reason;
  if (const auto at = reason.find(kWords); at != std::string::npos) reason.erase(at, kWords.size());
  if (plan.allocation.shared_cpus) reason += kWords;
}

}  // namespace

void prefer_known_memory(const Topology& topology, Plan& plan) {
  constexpr std::string_view kWords =
      ". No memory node is preferred, because the files of this machine contradict each other about its NUMA "
      "nodes";
  std::string& reason = plan.choice.reason;
  if (const auto at = reason.find(kWords); at != std::string::npos) reason.erase(at, kWords.size());
  if (!topology.nodes_contradict) return;
  bool any = false;
  for (RankBinding& rank : plan.ranks) {
    if (rank.optimizer.mems.size() < 2) continue;
    rank.optimizer.memory_policy = MemoryPolicy::none;
    any = true;
  }
  if (any) reason += kWords;
}

Provenance provenance_of(std::string command) {
  return {format_text("zf-tune {}", version()), time_now(), host_name(), std::move(command)};
}

Plan assemble(Provenance made, const Machine& machine, const Workload& workload, const Split& split,
              const Choice& choice, Evidence evidence, std::vector<std::string> warnings,
              std::vector<std::string> notes) {
  Plan plan;
  plan.made = std::move(made);
  plan.machine = machine_class_of(machine.topology);
  plan.gpus = gpu_places_of(machine.topology);
  plan.allocation = allocation_of(machine.allowed, plan.machine);
  plan.workload = workload;
  plan.intent = intent_of(split);
  plan.intent.isolated = machine.keeps_isolated;
  plan.intent.own_cpus = machine.allowed.own_by_name;
  std::vector<std::size_t> with_one_core;
  for (std::size_t rank = 0; rank < split.ranks.size(); ++rank) {
    plan.ranks.push_back(binding_of_split(static_cast<int>(rank), split.ranks[rank]));
    if (split.ranks[rank].home_cores <= 1 && !split.ranks[rank].floats) with_one_core.push_back(rank);
  }
  if (!with_one_core.empty()) notes.push_back(one_core_note(with_one_core));
  plan.allocation.shared_cpus = split.ranks.front().floats;
  plan.choice = choice;
  say_who_shares(plan);
  prefer_known_memory(machine.topology, plan);
  plan.evidence = std::move(evidence);
  plan.warnings = std::move(warnings);
  plan.allocation.notes = std::move(notes);
  return plan;
}

void record_gpus(const RankGpus& gpus, Plan& plan) {
  plan.intent.gpus_per_rank = gpus.share.gpus_per_rank;
  plan.intent.ranks_per_gpu = gpus.share.ranks_per_gpu;
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    RankBinding& binding = plan.ranks[rank];
    binding.more_gpus.clear();
    binding.spread_gpu.reset();
    if (!gpus.more.empty()) {
      for (const Gpu& gpu : gpus.more[rank]) binding.more_gpus.push_back(planned_gpu(gpu));
    }
    if (is_spread_near(gpus, plan.allocation.cpus)) binding.spread_gpu = planned_gpu(gpus.spread[rank]);
  }
}

}  // namespace zf
