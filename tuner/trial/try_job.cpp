#include "trial/try_job.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "base/format.hpp"
#include "gpus/moved_gpus.hpp"
#include "homes/rank_homes.hpp"
#include "machine/fingerprint.hpp"
#include "os/environment.hpp"
#include "planning/assemble.hpp"
#include "report/reasons.hpp"
#include "text/command_line.hpp"
#include "trial/trial.hpp"
#include "trial/trial_splits.hpp"

namespace zf {
namespace {

/// Returns the GPUs on this machine for as many ranks as the plan has. Throws Error(stale_plan) if this
/// machine is of another class than the plan's.
RankGpus gpus_for(const Plan& plan, const std::string& path, const Machine& machine) {
  const auto differences = class_differences(plan.machine, machine_class_of(machine.topology));
  if (!differences.empty()) {
    throw Error(Exit::stale_plan,
                format_text("{} is for another class of machine: {}", path, differences.front()),
                "make a plan here with zf-tune");
  }
  return renewed_gpus(Environment::of_this_process(), machine.topology, plan, plan.workload.ranks);
}

}  // namespace

Plan try_job(const Plan& from, const std::string& name, const Machine& machine, int sizes,
             const Metric& metric, TrialRequest request, const std::function<int()>& interrupt,
             const std::function<void(const TrialProgress&)>& progress) {
  const RankGpus gpus = gpus_for(from, name, machine);
  const RankHomes ranks = rank_homes(machine, gpus);
  const auto plan_for = [&](const TrialSplit& split) {
    Choice choice;
    choice.candidate = split.evidence_id;
    for (const CandidateEvidence& measured : from.evidence.candidates) {
      if (measured.id == split.evidence_id) choice.period_ns_median = measured.period_ns_median;
    }
    for (const RankSplit& rank : split.split.ranks) {
      choice.pool_threads = std::max(choice.pool_threads, static_cast<int>(rank.pool.size()));
    }
    choice.reason = "This split is being tried by the job itself";
    Plan plan = assemble(provenance_of(command_line()), machine, from.workload, split.split, choice,
                         from.evidence, from.warnings, ranks.notes);
    record_gpus(gpus, plan);
    return plan;
  };

  request.interrupt = interrupt;
  request.framework = from.workload.framework;
  const auto splits = without_equal_jobs(trial_splits(from, ranks.homes, sizes), request.framework);
  const std::string reach = reach_of_splits(request.framework, splits);
  if (!reach.empty()) say(request, reach);
  const std::string alike = launcher_warning(request.command, static_cast<int>(ranks.homes.size()));
  if (!alike.empty()) say(request, "warning: " + alike);
  TrialResult result = run_trial(splits, plan_for, metric, request, progress);
  if (!alike.empty()) result.warnings.push_back(alike);
  judge_trial(result.trial, from.workload.mode);
  std::string reason = reason_of(result.trial, from.workload.mode);
  if (interrupt() != 0)
    reason += format_text(". The trial was cut short by SIG{}", ::sigabbrev_np(interrupt()));
  Plan plan = plan_for(result.splits[static_cast<std::size_t>(result.trial.winner)]);
  plan.choice.reason = std::move(reason);
  prefer_known_memory(machine.topology, plan);
  plan.warnings.insert(plan.warnings.end(), result.warnings.begin(), result.warnings.end());
  plan.trial = std::move(result.trial);
  return plan;
}

}  // namespace zf
