// Writes what the launcher, ZenFlow and SuperOffload of DeepSpeed 0.19.6 read. homes/deepspeed_homes.cpp
// describes how they read it.
#include "exports/export.hpp"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "homes/deepspeed_homes.hpp"
#include "plan/json_fields.hpp"

namespace zf {
namespace {

/// Returns cpuadam_cores_perc. SuperOffload leaves int((1 - perc) * all_pus) CPUs to training, rounded
/// towards zero; the value here aims half a PU higher. Precondition: 1 <= training_pus < all_pus.
double superoffload_perc(int training_pus, int all_pus) { return (all_pus - training_pus - 0.5) / all_pus; }

}  // namespace

Export deepspeed_export(const ExportInput& input) {
  if (const auto why = why_not_deepspeed(input.ranks, input.plan.machine.cores)) {
    throw Error(Exit::infeasible, fmt::format("DeepSpeed cannot be told this plan: {}", *why),
                "make a plan that it can be told: zf-tune tune --for deepspeed");
  }
  CpuSet list;
  for (const RankBinding& rank : input.ranks) list |= rank.both_sides();
  const RankBinding& first = input.ranks.front();
  const auto training = static_cast<int>(first.training.cpus.size());
  const auto all = static_cast<int>(first.both_sides().size());

  Export result;
  nlohmann::ordered_json document{
      {"arguments", {"--bind_cores_to_rank", "--bind_core_list", print(list)}},
      {"zenflow",
       {{"zero_optimization", {{"zenflow", {{"pt_reserved_cores_perc", first.pt_reserved_cores_perc}}}}}}}};
  if (first.shared) {
    result.notes.push_back("SuperOffload is left out: unlike ZenFlow, it cannot let both sides share a core");
  } else {
    document["superoffload"] = {
        {"zero_optimization",
         {{"offload_optimizer",
           {{"super_offload", true}, {"cpuadam_cores_perc", superoffload_perc(training, all)}}}}}};
  }
  result.text = print_json(document);
  result.notes.push_back(
      "give the arguments to the deepspeed launcher, and put either zenflow or superoffload into its "
      "configuration; on a machine with SMT the launcher's OMP_NUM_THREADS counts CPUs, not cores");
  if (input.ranks.size() == 1) {
    result.notes.push_back(
        "the plan has one rank: on several nodes DeepSpeed divides these CPUs among the ranks of all nodes");
  }
  return result;
}

}  // namespace zf
