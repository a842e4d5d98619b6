#include "exports/export.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/format.hpp"
#include "plan/plan_check.hpp"
#include "text/nearest.hpp"

namespace zf {
namespace {

const Consumer& consumer_named(std::string_view name) {
  const auto& all = consumers();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Consumer& consumer) { return consumer.name == name; });
  if (found != all.end()) return *found;
  std::string names;
  for (const Consumer& consumer : all) names += format_text("{}{}", names.empty() ? "" : ", ", consumer.name);
  throw Error(Exit::usage, format_text("zf-tune export: --for: there is no consumer \"{}\"", name),
              did_you_mean(name, names).value_or(format_text("choose one of {}", names)));
}

std::vector<RankBinding> ranks_for(const Consumer& consumer, const Plan& plan, std::optional<int> rank) {
  if (rank && consumer.ranks == Ranks::whole) {
    throw Error(
        Exit::usage,
        format_text("zf-tune export: --rank {}: an export for {} covers all ranks", *rank, consumer.name),
        "leave --rank out");
  }
  if (rank) return {binding_of(plan, *rank)};
  if (consumer.ranks == Ranks::one && plan.ranks.size() > 1) {
    throw Error(Exit::usage,
                format_text("zf-tune export: an export for {} covers one of the plan's {} ranks",
                            consumer.name, plan.ranks.size()),
                "give --rank N");
  }
  return plan.ranks;
}

}  // namespace

const std::vector<Consumer>& consumers() {
  static const std::vector<Consumer> all{
      {"deepspeed", "the command that starts all ranks, or its configuration", Ranks::whole, true,
       deepspeed_export},
      {"numactl", "a command prefix per rank", Ranks::each, false, numactl_export},
      {"taskset", "a command prefix per rank", Ranks::each, false, taskset_export},
      {"slurm", "an option of srun", Ranks::whole, false, slurm_export},
      {"openmp", "shell exports of one rank", Ranks::one, false, openmp_export},
      {"torchrun", "a command prefix that starts all ranks", Ranks::whole, false, torchrun_export},
      {"mpirun", "Open MPI's rankfile", Ranks::whole, false, mpirun_export},
      {"hwloc", "a bitmap per rank", Ranks::each, false, hwloc_export},
      {"env", "shell exports of one rank: the variables that exec sets", Ranks::one, false, env_export},
  };
  return all;
}

Export export_plan(std::string_view name, const ExportRequest& request) {
  const Consumer& consumer = consumer_named(name);
  if (request.config && !consumer.takes_config) {
    throw Error(Exit::usage,
                format_text("zf-tune export: --config {}: {} has no configuration that a plan could go into",
                            request.config->path.string(), name),
                "leave --config out");
  }
  return consumer.write(
      {request.plan, ranks_for(consumer, request.plan, request.rank), request.plan_path, request.config});
}

}  // namespace zf
