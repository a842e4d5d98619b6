#include "search/tuning.hpp"

#include <utility>

#include "base/error.hpp"
#include "base/exit_after_signal.hpp"
#include "search/contest.hpp"
#include "search/headroom.hpp"

namespace zf {
namespace {

/// With --for deepspeed, the share of the budget for the restricted sweep, and as much again for the free
/// one: both choices are looked for equally well. What is left compares the two. `regret` does not use it.
constexpr double kRestrictedShare = 0.4;

/// Returns the pools of a shared home that the plan may have.
SharedPools shared_pools_for(bool for_deepspeed, Framework framework) {
  if (!for_deepspeed) return shared_pools_of(framework);
  return framework == Framework::superoffload ? SharedPools::none : SharedPools::whole;
}

/// Returns the limits of the sweep for the plan. With for_deepspeed, a part of the budget is left for the
/// free choice.
SweepLimits limits_of(const TuningRequest& request, Framework framework) {
  SweepLimits limits = request.limits;
  limits.shared_pools = shared_pools_for(request.for_deepspeed, framework);
  if (!request.for_deepspeed) return limits;
  limits.budget_share = kRestrictedShare;
  limits.budget_ns = static_cast<Nanoseconds>(kRestrictedShare * static_cast<double>(limits.budget_ns));
  return limits;
}

/// Sweeps without DeepSpeed's restriction, and compares the two winners. Throws Error if a measurement fails.
RestrictionCost measured_cost(const TuningJob& job, const Split& chosen, const SweepLimits& limits,
                              Nanoseconds deadline_ns) {
  const SweepResult free =
      limits.stop() ? SweepResult() : sweep(job.free_homes, job.workload, *job.meter, limits, nullptr);
  if (free.splits.empty() || limits.stop()) return {};
  const auto best = static_cast<std::size_t>(choose(free.evidence, job.workload).candidate);
  const Split& free_choice = free.splits[best];
  if (free_choice.ranks == chosen.ranks) return {.is_free_choice = true};
  return {.free_label = free_choice.label,
          .longer = restriction_cost(chosen, free_choice, schedule_of(job.workload, job.meter->scale()),
                                     *job.meter, deadline_ns, limits.stop)};
}

/// Returns the same; if a measurement fails, why. The plan stands without that figure.
RestrictionCost measured_cost_or_failure(const TuningJob& job, const Split& chosen, const SweepLimits& limits,
                                         Nanoseconds deadline_ns) {
  try {
    return measured_cost(job, chosen, limits, deadline_ns);
  } catch (const Error& error) {
    return {.failure = error.what()};
  }
}

}  // namespace

Choice choose(const Evidence& evidence, const Workload& workload) {
  const Decision decision = decide(contest_of(evidence, workload));
  const CandidateEvidence& chosen = evidence.candidates[decision.winner];
  Choice choice;
  choice.candidate = chosen.id;
  choice.period_ns_median = chosen.period_ns_median;
  choice.pool_threads = chosen.pool_threads;
  choice.headroom = headroom_of(evidence, workload, chosen.id);
  return choice;
}

Tuned tune(TuningJob& job, const TuningRequest& request, RecordingMeter* recorder,
           const std::function<int()>& interrupt, const std::function<void(const SweepProgress&)>& progress,
           const std::function<void()>& swept) {
  SweepLimits limits = limits_of(request, job.workload.framework);
  limits.stop = [&] { return interrupt() != 0; };
  const Nanoseconds start_ns = job.meter->now();
  Meter& meter = recorder != nullptr ? static_cast<Meter&>(*recorder) : *job.meter;
  Tuned tuned{.sweep = sweep(job.placed.homes, job.workload, meter, limits, progress)};
  swept();
  if (tuned.sweep.splits.empty()) {
    throw Error(exit_after_signal(interrupt()),
                "interrupted before anything was measured: no plan was written");
  }
  const auto whole = [&](Nanoseconds part) {
    return request.for_deepspeed ? static_cast<Nanoseconds>(static_cast<double>(part) / kRestrictedShare)
                                 : part;
  };
  tuned.telling_budget_ns = whole(tuned.sweep.telling_budget_ns);
  tuned.choice = choose(tuned.sweep.evidence, job.workload);
  tuned.signal = interrupt();
  if (request.for_deepspeed) {
    if (limits.budget_ns == 0) limits.budget_ns = tuned.sweep.budget_ns;
    limits.shared_pools = SharedPools::whole;  // the free choice may share
    tuned.restriction =
        measured_cost_or_failure(job, tuned.sweep.splits[static_cast<std::size_t>(tuned.choice.candidate)],
                                 limits, start_ns + whole(limits.budget_ns));
  }
  if (tuned.signal == 0 && !tuned.sweep.cut_short && recorder != nullptr) recorder->finish();
  return tuned;
}

}  // namespace zf
