#include "report/comparisons.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/format.hpp"
#include "compare/statistics.hpp"
#include "search/contest.hpp"
#include "search/period_levels.hpp"

namespace zf {

const CandidateEvidence* candidate_with(const Evidence& evidence, int id) {
  const auto found = std::ranges::find(evidence.candidates, id, &CandidateEvidence::id);
  return found == evidence.candidates.end() ? nullptr : &*found;
}

namespace {

/// Precondition: the evidence has the candidate.
std::size_t position_of(const Evidence& evidence, int id) {
  return static_cast<std::size_t>(candidate_with(evidence, id) - evidence.candidates.data());
}

/// Returns how much longer the period of candidate `b` is than that of `a` by these visits.
Difference difference_by(VisitsOf which, const Evidence& evidence, const Workload& workload, int a, int b) {
  const Schedule schedule = schedule_of(workload, evidence.scale);
  const Levels levels = levels_of(evidence, visits_of(evidence, schedule, which));
  return levels.difference(position_of(evidence, a), position_of(evidence, b));
}

/// Returns how every other split of a trial compares with its winner.
std::vector<OtherSplit> splits_beside_winner(const Trial& trial) {
  std::vector<OtherSplit> others;
  const auto winner = static_cast<std::size_t>(trial.winner);
  for (std::size_t i = 0; i < trial.candidates.size(); ++i) {
    const TrialCandidate& candidate = trial.candidates[i];
    if (i != winner) others.push_back({candidate.label, candidate.control, compared(trial, i, winner)});
  }
  return others;
}

std::optional<Comparison> find_control(const std::vector<OtherSplit>& others, Control control) {
  const auto found = std::ranges::find(others, control, &OtherSplit::control);
  return found == others.end() ? std::nullopt : std::optional(found->comparison);
}

}  // namespace

std::string name_in_words(Control control, const std::string& label) {
  return control == Control::unbound ? "unbound" : format_text("\"{}\"", label);
}

Comparison compared(const Evidence& evidence, const Workload& workload, int id, int other) {
  const CandidateEvidence& candidate = *candidate_with(evidence, id);
  Comparison comparison{.name = name_in_words(candidate.control, candidate.label),
                        .longer = difference_by(VisitsOf::check, evidence, workload, other, id),
                        .accuracy = evidence.accuracy_wanted};
  if (comparison.longer.is_known()) return comparison;
  comparison.longer = difference_by(VisitsOf::search, evidence, workload, other, id);
  const bool both =
      count_periods(evidence, id, VisitsOf::check) > 0 && count_periods(evidence, other, VisitsOf::check) > 0;
  comparison.basis = both ? Basis::search_still : Basis::search;
  return comparison;
}

std::optional<Nanoseconds> checked_period_ns(const Evidence& evidence, const Workload& workload, int id) {
  const Schedule schedule = schedule_of(workload, evidence.scale);
  const Levels levels = levels_of(evidence, visits_of(evidence, schedule, VisitsOf::check));
  for (std::size_t i = 0; i < evidence.candidates.size(); ++i) {
    if (evidence.candidates[i].id == id && levels.has(i) && std::isfinite(levels.of(i)))
      return std::llround(levels.of(i));
  }
  return std::nullopt;
}

Comparison compared(const Trial& trial, std::size_t index, std::size_t other) {
  const TrialCandidate& candidate = trial.candidates[index];
  return {.name = name_in_words(candidate.control, candidate.label),
          .longer = levels_of(trial).difference(other, index),
          .accuracy = kDefaultTie,
          .of_rates = trial.higher_is_better};
}

const CandidateEvidence* chosen_of(const Plan& plan) {
  return candidate_with(plan.evidence, plan.choice.candidate);
}

std::vector<OtherSplit> splits_beside_plan(const Plan& plan) {
  if (plan.trial) return splits_beside_winner(*plan.trial);
  std::vector<OtherSplit> others;
  const CandidateEvidence* chosen = chosen_of(plan);
  if (chosen == nullptr) return others;
  for (const CandidateEvidence& candidate : plan.evidence.candidates) {
    if (&candidate == chosen) continue;
    others.push_back({candidate.label, candidate.control,
                      compared(plan.evidence, plan.workload, candidate.id, chosen->id)});
  }
  return others;
}

std::optional<Comparison> control_beside_plan(const Plan& plan, Control control) {
  return find_control(splits_beside_plan(plan), control);
}

bool is_unbound_better(const Trial& trial) {
  const auto unbound = find_control(splits_beside_winner(trial), Control::unbound);
  return unbound && inverse(unbound->longer).low > kDefaultTie;
}

bool is_unbound_better(const Plan& plan) {
  if (plan.trial) return is_unbound_better(*plan.trial);
  const Evidence& evidence = plan.evidence;
  const CandidateEvidence* chosen = chosen_of(plan);
  if (chosen == nullptr || !is_eligible(*chosen)) return false;
  if (count_periods(evidence, chosen->id, VisitsOf::search) == 0) return false;
  const Decision decision = decide(contest_of(evidence, plan.workload));
  return decision.unbound_is_better && &evidence.candidates[decision.winner] == chosen;
}

bool was_checked(const Plan& plan) {
  const auto& samples = plan.evidence.samples;
  return !plan.trial && std::ranges::any_of(samples, [&](const Sample& sample) {
    return came_after_choice(plan.evidence, sample);
  });
}

}  // namespace zf
