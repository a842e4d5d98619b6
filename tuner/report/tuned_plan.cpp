#include "report/tuned_plan.hpp"

#include <cstring>
#include <utility>

#include "base/format.hpp"
#include "compare/comparison.hpp"
#include "homes/deepspeed_homes.hpp"
#include "measure/bandwidth.hpp"
#include "planning/assemble.hpp"
#include "report/reasons.hpp"
#include "search/contest.hpp"
#include "text/command_line.hpp"

namespace zf {
namespace {

void add_unless_empty(std::vector<std::string>& texts, std::string text) {
  if (!text.empty()) texts.push_back(std::move(text));
}

/// Says that the sweep was cut short: by a visit that failed, or by a signal (0: by none).
std::string cut_short_in_words(bool by_visit, int signal) {
  std::string text;
  if (by_visit) text = ". The sweep was cut short: a visit failed, see the warnings";
  if (signal != 0) text += format_text(". The sweep was cut short by SIG{}", ::sigabbrev_np(signal));
  return text;
}

/// Says what DeepSpeed's restriction is, and what it costs.
std::string kept_to_deepspeed(const TuningJob& job, const RestrictionCost& cost, double accuracy) {
  return format_text(". The homes are kept to what DeepSpeed can be told: {}. {}",
                     restriction_in_words(job.placed.homes, job.machine.allowed),
                     cost_in_words(cost, accuracy));
}

std::string whole_reason(const TuningJob& job, const Tuned& tuned) {
  const Evidence& evidence = tuned.sweep.evidence;
  const Decision decision = decide(contest_of(evidence, job.workload));
  std::string reason = reason_of(evidence, job.workload, decision, tuned.telling_budget_ns) +
                       cut_short_in_words(tuned.sweep.cut_short, tuned.signal);
  if (tuned.restriction) reason += kept_to_deepspeed(job, *tuned.restriction, evidence.accuracy_wanted);
  return reason + advice_of(decision);
}

}  // namespace

std::string cost_in_words(const RestrictionCost& cost, double accuracy) {
  if (cost.is_free_choice) return "That costs nothing: it is also the free choice";
  if (cost.longer) {
    return comparison_in_words({.name = format_text("the free choice, \"{}\",", cost.free_label),
                                .longer = *cost.longer,
                                .accuracy = accuracy});
  }
  return "What that costs against the free choice was not measured" +
         (cost.failure.empty() ? "" : ": " + cost.failure);
}

Plan plan_of(const TuningJob& job, const TuningRequest& request, Tuned tuned) {
  SweepResult& sweep = tuned.sweep;
  tuned.choice.reason = whole_reason(job, tuned);
  std::vector<std::string> warnings = job.warnings;
  for (std::string& warning : sweep.warnings) warnings.push_back(std::move(warning));
  add_unless_empty(warnings, noise_warning(sweep.evidence));

  const Split& chosen = sweep.splits[static_cast<std::size_t>(tuned.choice.candidate)];
  std::vector<std::string> notes = job.placed.notes;
  add_unless_empty(notes, outliers_in_words(sweep.evidence, job.workload));
  if (request.for_deepspeed) {
    for (std::string& sentence : unfair_fast_cores(chosen, job.machine.topology, job.machine.allowed.cpus))
      notes.push_back(std::move(sentence));
  }
  Plan plan = assemble(provenance_of(command_line()), job.machine, job.workload, chosen, tuned.choice,
                       std::move(sweep.evidence), std::move(warnings), std::move(notes));
  plan.intent.for_deepspeed = request.for_deepspeed;
  plan.intent.state_format = request.state_format;
  record_gpus(job.gpus, plan);
  add_unless_empty(plan.warnings, spread_warning(plan));
  return plan;
}

}  // namespace zf
