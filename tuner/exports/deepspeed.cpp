// DeepSpeed 0.19.6: the launcher cuts an ascending list of CPUs into equal runs, one per local rank
// (utils/numa.py); ZenFlow cuts each rank's run into training, then optimizer, by one fraction for all ranks
// (zenflow_utils.py); SuperOffload does the same with the fraction of the other side (superoffload_utils.py).
#include "tuner/exports/deepspeed.hpp"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "plan/reserved_perc.hpp"
#include "tuner/exports/export.hpp"

namespace zf {
namespace {

CpuSet cpus_of(const RankBinding& rank) { return rank.training.cpus | rank.optimizer.cpus; }

/// Of one rank alone: DeepSpeed's training side is the lowest CPUs.
std::optional<std::string> not_a_prefix(const RankBinding& rank) {
  if (rank.shared || rank.training.cpus.last() < rank.optimizer.cpus.first()) return std::nullopt;
  return fmt::format(
      "rank {} trains on {} and optimizes on {}: DeepSpeed trains on the lowest CPUs of a rank", rank.rank,
      print(rank.training.cpus), print(rank.optimizer.cpus));
}

}  // namespace

std::optional<std::string> why_not_deepspeed(const std::vector<RankBinding>& ranks, int machine_cores) {
  const RankBinding& first = ranks.front();
  for (const RankBinding& rank : ranks) {
    if (auto why = not_a_prefix(rank)) return why;
    if (rank.training.cpus.size() != first.training.cpus.size() ||
        cpus_of(rank).size() != cpus_of(first).size()) {
      return fmt::format(
          "rank {} has {} CPUs, {} of them for training, and rank {} has {} and {}: DeepSpeed gives every "
          "rank as many",
          first.rank, cpus_of(first).size(), first.training.cpus.size(), rank.rank, cpus_of(rank).size(),
          rank.training.cpus.size());
    }
    if (rank.rank == first.rank) continue;
    const RankBinding& before = ranks[static_cast<std::size_t>(rank.rank - 1)];
    if (cpus_of(before).last() < cpus_of(rank).first()) continue;
    return fmt::format("ranks {} and {} interleave ({}, {}): DeepSpeed cuts one ascending list into runs",
                       before.rank, rank.rank, print(cpus_of(before)), print(cpus_of(rank)));
  }
  if (ranks.size() == 1 && cpus_of(first).last().os_index >= machine_cores) {
    return fmt::format(
        "the only rank has CPU {}: where all ranks have one mask, DeepSpeed drops CPU numbers from {} on, "
        "the number "
        "of cores",
        cpus_of(first).last().os_index, machine_cores);
  }
  return std::nullopt;
}

double superoffload_perc(int training_pus, int all_pus) { return (all_pus - training_pus - 0.5) / all_pus; }

Export deepspeed_export(const ExportInput& input) {
  if (const auto why = why_not_deepspeed(input.ranks, input.plan.machine.cores)) {
    throw Error(Exit::infeasible, fmt::format("DeepSpeed cannot be told this plan: {}", *why),
                "make one that it can be told with zf-tune tune --for deepspeed");
  }
  CpuSet list;
  for (const RankBinding& rank : input.ranks) list |= cpus_of(rank);
  const RankBinding& first = input.ranks.front();
  const auto training = static_cast<int>(first.training.cpus.size());
  const auto all = static_cast<int>(cpus_of(first).size());

  Export result;
  nlohmann::ordered_json document{
      {"arguments", {"--bind_cores_to_rank", "--bind_core_list", print(list)}},
      {"zenflow",
       {{"zero_optimization", {{"zenflow", {{"pt_reserved_cores_perc", first.pt_reserved_cores_perc}}}}}}}};
  if (first.shared) {
    result.notes.push_back("SuperOffload is left out: it cannot let both sides share a core, ZenFlow can");
  } else {
    document["superoffload"] = {
        {"zero_optimization",
         {{"offload_optimizer",
           {{"super_offload", true}, {"cpuadam_cores_perc", superoffload_perc(training, all)}}}}}};
  }
  result.text = document.dump(2) + "\n";
  result.notes.push_back(
      "arguments go to the deepspeed launcher, and either zenflow or superoffload into its configuration; on "
      "an SMT "
      "machine the launcher's OMP_NUM_THREADS counts CPUs, not cores");
  if (input.ranks.size() == 1) {
    result.notes.push_back(
        "one rank per node: on several nodes DeepSpeed divides these CPUs among the nodes' ranks");
  }
  return result;
}

}  // namespace zf
