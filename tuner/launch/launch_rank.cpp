// Which rank this process is, and how many ranks run on this node.
#include "launch/launch_parts.hpp"

#include "base/error.hpp"
#include "base/format.hpp"
#include "launchers/local_rank.hpp"
#include "plan/resolve_rank.hpp"

namespace zf {

EnvNumber launch_rank(const Plan& plan, const LaunchRequest& request, const Environment& environment) {
  if (request.rank) return {*request.rank, "--rank"};
  if (const auto found = resolve_rank(plan.ranks.size(), environment)) return *found;
  if (in_batch_script(environment)) {
    throw Error(
        Exit::usage,
        format_text("this is a Slurm batch script, which is none of the plan's {} ranks", plan.ranks.size()),
        "start the job with srun, or give --rank N");
  }
  throw Error(
      Exit::usage,
      format_text("no variable says which of the plan's {} ranks this process is", plan.ranks.size()),
      "give --rank N, or let torchrun --no-python, srun or mpirun start zf-tune exec once per rank: they set "
      "LOCAL_RANK or a similar variable");
}

int launch_rank_count(const Plan& plan, const LaunchRequest& request, const Environment& environment) {
  if (request.ranks) return *request.ranks;
  const auto launched = request.rank ? std::nullopt : launched_ranks(environment);
  return launched ? launched->value : static_cast<int>(plan.ranks.size());
}

}  // namespace zf
