#include "tuner/launch_here.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "os/machine_glance.hpp"
#include "plan/plan_check.hpp"
#include "plan/plan_json.hpp"
#include "tuner/machine.hpp"
#include "tuner/plan_in_memory.hpp"
#include "tuner/retarget.hpp"

namespace zf {
namespace {

std::string in_words(std::size_t ranks) { return fmt::format("{} rank{}", ranks, ranks == 1 ? "" : "s"); }

/// What the launcher could have been told, where it narrowed this process and not the job.
std::string advice(const Allowed& allowed, int ranks) {
  const auto by_mask = [](const Exclusion& e) { return e.reason == ExclusionReason::affinity_mask; };
  const bool masked = std::any_of(allowed.exclusions.begin(), allowed.exclusions.end(), by_mask);
  if (ranks == 1 || !masked) return "";
  return "; if these are this rank's alone, let the launcher bind nothing (srun --cpu-bind=none, mpirun "
         "--bind-to none)";
}

struct Fitted {
  Plan plan;
  std::string note;
};

/// For all ranks of this node, each of which comes to the same.
Fitted fitted_to_all(const Plan& plan, int ranks, const Machine& machine, const LaunchRequest& request,
                     const Environment& environment) {
  Plan moved = retarget(plan, machine, moved_gpus(environment, machine.topology, plan, ranks),
                        {.any_class = request.force});
  const bool others = moved.ranks.size() != plan.ranks.size();
  std::string note =
      fmt::format("{}, made for {}CPUs {}, is fitted to {}the CPUs allowed here, {}{}",
                  request.plan_path.string(), others ? in_words(plan.ranks.size()) + " and " : "",
                  print(plan.allocation.cpus), others ? in_words(moved.ranks.size()) + " and " : "",
                  print(moved.allocation.cpus), advice(machine.allowed, ranks));
  return {std::move(moved), std::move(note)};
}

/// For a rank that sees its own CPUs alone.
Fitted fitted_to_one(const Plan& plan, int rank, int ranks, const Machine& machine,
                     const LaunchRequest& request, const Environment& environment) {
  RankGpus gpus = moved_gpus(environment, machine.topology, plan, ranks);
  gpus.gpus = {gpus.gpus.at(static_cast<std::size_t>(rank))};
  const int model = std::min(rank, static_cast<int>(plan.ranks.size()) - 1);
  Plan moved = retarget(plan_of_rank(plan, model), machine, gpus, {.any_class = request.force});
  std::string note = fmt::format(
      "{} is fitted to the CPUs that Slurm gave to rank {}, {} "
      "(with srun --cpu-bind=none the plan shares out the job's)",
      request.plan_path.string(), rank, print(moved.allocation.cpus));
  return {std::move(moved), std::move(note)};
}

Launch launch_by(const Plan& plan, LaunchRequest request, const Environment& environment) {
  const Allowed allowed = read_allowed(SysRoot());
  const int rank = rank_of(plan, request, environment).value;
  const int ranks = rank_count_of(plan, request, environment);
  if (holds(plan, rank, ranks, allowed) && !foreign_machine(plan.machine, read_machine_glance(SysRoot())))
    return launch_of(plan, request, allowed, environment);

  if (rank >= ranks) {
    throw Error(Exit::usage, fmt::format("rank {} of {} on this node", rank, ranks),
                "local ranks count from 0: look at --rank and the launcher's variables");
  }
  const bool alone = ranks > 1 && slurm_binds_each_task(environment, ranks);
  const Machine machine = read_machine({});
  const Fitted fitted = alone ? fitted_to_one(plan, rank, ranks, machine, request, environment)
                              : fitted_to_all(plan, ranks, machine, request, environment);
  request.plan_path = plan_in_memory(fitted.plan);
  if (alone) request.rank = 0;
  Launch launch = launch_of(fitted.plan, request, machine.allowed, environment);
  launch.notes.insert(launch.notes.begin(), fitted.note);
  return launch;
}

}  // namespace

Launch launch_here(const LaunchRequest& request, const Environment& environment) {
  try {
    return launch_by(load_plan(request.plan_path), request, environment);
  } catch (const Error& error) {
    if (!request.force) throw;
    Launch unbound;
    unbound.notes.push_back(fmt::format("{}; going on, bound to nothing", error.what()));
    return unbound;
  }
}

}  // namespace zf
