#include "search/tuning.hpp"

#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "base/exit_after_signal.hpp"
#include "base/format.hpp"
#include "homes/deepspeed_homes.hpp"
#include "measure/bandwidth.hpp"
#include "planning/assemble.hpp"
#include "search/choice_words.hpp"
#include "search/choose.hpp"
#include "search/contest.hpp"
#include "search/restriction_cost.hpp"
#include "text/command_line.hpp"

namespace zf {
namespace {

/// With --for deepspeed, the share of the budget for the restricted sweep, and as much again for the free
/// one.
constexpr double kRestrictedShare = 0.4;

void add_unless_empty(std::vector<std::string>& warnings, const std::string& warning) {
  if (!warning.empty()) warnings.push_back(warning);
}

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

/// Sweeps without DeepSpeed's restriction, compares the two winners, and says what the restriction costs.
/// Throws Error if a measurement fails.
std::string measured_cost_for_deepspeed(const TuningJob& job, const Split& chosen, const SweepLimits& limits,
                                        Nanoseconds deadline_ns) {
  const SweepResult free =
      limits.stop() ? SweepResult() : sweep(job.free_homes, job.workload, *job.meter, limits, nullptr);
  if (free.splits.empty() || limits.stop()) return "What that costs against the free choice was not measured";
  const auto best = static_cast<std::size_t>(choose(free.evidence, job.workload).candidate);
  const Split& free_choice = free.splits[best];
  if (free_choice.ranks == chosen.ranks) return "That costs nothing: it is also the free choice";
  const Difference cost = restriction_cost(chosen, free_choice, schedule_of(job.workload, job.meter->scale()),
                                           *job.meter, deadline_ns, limits.stop);
  return cost_in_words(cost, limits.accuracy, free_choice.label);
}

/// Says what DeepSpeed's restriction is and what it costs. The plan stands without that figure.
std::string cost_for_deepspeed(const TuningJob& job, const Split& chosen, const SweepLimits& limits,
                               Nanoseconds deadline_ns) {
  const std::string kept = format_text("The homes are kept to what DeepSpeed can be told: {}. ",
                                       restriction_in_words(job.placed.homes, job.machine.allowed));
  try {
    return kept + measured_cost_for_deepspeed(job, chosen, limits, deadline_ns);
  } catch (const Error& error) {
    return kept + "What that costs against the free choice was not measured: " + error.what();
  }
}

/// Says that the sweep was cut short: by a visit that failed, or by a signal (0: by none).
std::string cut_short_in_words(bool by_visit, int signal) {
  std::string text;
  if (by_visit) text = ". The sweep was cut short: a visit failed, see the warnings";
  if (signal != 0) text += format_text(". The sweep was cut short by SIG{}", ::sigabbrev_np(signal));
  return text;
}

}  // namespace

Plan tune(TuningJob& job, const TuningRequest& request, RecordingMeter* recorder,
          const std::function<int()>& interrupt, const std::function<void(const SweepProgress&)>& progress,
          const std::function<void()>& swept) {
  SweepLimits limits = limits_of(request, job.workload.framework);
  limits.stop = [&] { return interrupt() != 0; };
  const Nanoseconds start_ns = job.meter->now();
  Meter& meter = recorder != nullptr ? static_cast<Meter&>(*recorder) : *job.meter;
  SweepResult result = sweep(job.placed.homes, job.workload, meter, limits, progress);
  swept();
  if (result.splits.empty()) {
    throw Error(exit_after_signal(interrupt()),
                "interrupted before anything was measured: no plan was written");
  }
  if (limits.budget_ns == 0) limits.budget_ns = result.budget_ns;
  const double share = request.for_deepspeed ? kRestrictedShare : 1;
  const auto telling_ns = static_cast<Nanoseconds>(static_cast<double>(result.telling_budget_ns) / share);
  Choice choice = choose(result.evidence, job.workload, telling_ns);
  const int signal = interrupt();
  choice.reason += cut_short_in_words(result.cut_short, signal);
  const Split& chosen = result.splits[static_cast<std::size_t>(choice.candidate)];
  if (request.for_deepspeed) {
    const auto whole_ns = static_cast<Nanoseconds>(static_cast<double>(limits.budget_ns) / kRestrictedShare);
    limits.shared_pools = SharedPools::whole;  // the free choice may share
    choice.reason += ". " + cost_for_deepspeed(job, chosen, limits, start_ns + whole_ns);
  }
  choice.reason += advice_of(decide(contest_of(result.evidence, job.workload)));
  if (signal == 0 && !result.cut_short && recorder != nullptr) recorder->finish();
  std::vector<std::string> warnings = job.warnings;
  for (std::string& warning : result.warnings) warnings.push_back(std::move(warning));
  add_unless_empty(warnings, noise_warning(result.evidence));

  std::vector<std::string> notes = job.placed.notes;
  add_unless_empty(notes, outliers_in_words(result.evidence, job.workload));
  if (request.for_deepspeed) {
    for (std::string& sentence : unfair_fast_cores(chosen, job.machine.topology, job.machine.allowed.cpus))
      notes.push_back(std::move(sentence));
  }
  Plan plan = assemble(provenance_of(command_line()), job.machine, job.workload, chosen, choice,
                       std::move(result.evidence), std::move(warnings), std::move(notes));
  plan.intent.for_deepspeed = request.for_deepspeed;
  plan.intent.state_format = request.state_format;
  record_gpus(job.gpus, plan);
  add_unless_empty(plan.warnings, spread_warning(plan));
  return plan;
}

}  // namespace zf
