// DeepSpeed 0.19.6: what its launcher, ZenFlow and SuperOffload read (homes/deepspeed_homes.cpp says how).
#include "exports/deepspeed.hpp"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "exports/export.hpp"
#include "homes/deepspeed_homes.hpp"

namespace zf {
namespace {

CpuSet cpus_of(const RankBinding& rank) { return rank.training.cpus | rank.optimizer.cpus; }

}  // namespace

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
