// Puts the choice of a sweep in words.
#include "report/reasons.hpp"

#include <algorithm>
#include <cmath>

#include "base/format.hpp"
#include "base/text.hpp"
#include "report/comparisons.hpp"
#include "search/period_levels.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

/// Equal splits that differ by more than this are worth a warning: splits rarely differ by more.
constexpr double kVeryNoisy = 0.2;

/// The times of the plan's split that its reason quotes.
struct Quoted {
  SplitTimes times;
  bool by_check = false;  ///< by the visits after the choice, not by those of the search
};

/// Returns the times of the candidate's row; if the visits after the choice contradict its period by more
/// than may ever be a tie, the times by those visits.
Quoted quoted_of(const Evidence& evidence, const Workload& workload, std::size_t index) {
  const CandidateEvidence& row = evidence.candidates[index];
  const SplitTimes searched{static_cast<double>(row.period_ns_median),
                            static_cast<double>(row.training_ns_median),
                            static_cast<double>(row.step_ns_median)};
  const Schedule schedule = schedule_of(workload, evidence.scale);
  const auto visits = visits_of(evidence, schedule, VisitsOf::check);
  const SplitTimes checked = fitted_times(visits, levels_of(evidence, visits), schedule)[index];
  const double apart = std::abs(checked.period / searched.period - 1);
  if (checked.period == 0 || apart <= kLargestTie * evidence.accuracy_wanted) return {searched, false};
  return {checked, true};
}

std::string print_time(double ns) { return print_duration(std::llround(ns)); }

/// Returns "36.2 ms", or "36.2 ms by the visits after the choice".
std::string period_in_words(const Quoted& quoted) {
  return print_time(quoted.times.period) + (quoted.by_check ? " by the visits after the choice" : "");
}

/// Returns the job's own step, and if it is not ours: "120 ms (1.29 times ours, which was measured)".
std::string step_in_words(const SplitTimes& times, const Schedule& schedule) {
  const double factor = schedule.step_factor;
  const std::string step = print_time(factor * times.step);
  return factor == 1 ? step : format_text("{} ({:.2f} times ours, which was measured)", step, factor);
}

/// Returns how the two sides make a period: "The optimizer's step of 16.2 ms hides behind 4 training steps
/// of 36.0 ms each", or how much of the step is exposed.
std::string sides_in_words(const SplitTimes& times, const Schedule& schedule) {
  if (times.training == 0) return "No training side was measured";
  const int interval = schedule.update_interval;
  const std::string one = print_time(times.training);
  const std::string steps =
      format_text("{} of {}{}", print_count(interval, "training step"), one, interval == 1 ? "" : " each");
  const std::string step = step_in_words(times, schedule);
  if (schedule.mode == Mode::wait) return format_text("The optimizer's step of {} follows {}", step, steps);
  const std::string behind = schedule.mode == Mode::overlap    ? steps
                             : schedule.mode == Mode::backward ? "the backward of a training step of " + one
                                                               : "the forward of a training step of " + one;
  const Nanoseconds exposed_ns = std::llround(exposed_of(times.training, times.step, schedule));
  if (exposed_ns == 0) return format_text("The optimizer's step of {} hides behind {}", step, behind);
  return format_text("The optimizer's step of {} does not fully hide behind {}: {} of it are exposed", step,
                     behind, print_duration(exposed_ns));
}

/// Returns "4 cores of each rank train, 2 cores run the optimizer, 1 core stays idle".
std::string cores_in_words(const CandidateEvidence& chosen) {
  if (is_shared(chosen)) {
    return format_text("Training has the whole home of each rank, and the optimizer runs on {} of it",
                       print_count(chosen.pool_cores, "core"));
  }
  std::string text =
      format_text("{} of each rank train{}, {} run{} the optimizer",
                  print_count(chosen.reserved_cores, "core"), chosen.reserved_cores == 1 ? "s" : "",
                  print_count(chosen.pool_cores, "core"), chosen.pool_cores == 1 ? "s" : "");
  if (chosen.idle_cores > 0) {
    text += format_text(", {} stay{} idle", print_count(chosen.idle_cores, "core"),
                        chosen.idle_cores == 1 ? "s" : "");
  }
  return text;
}

/// Says why the winner is preferred to the fastest split, which is not much faster.
std::string preference_in_words(const CandidateEvidence& winner, const CandidateEvidence& fastest,
                                const Workload& workload) {
  const char* const safe = winner.training_ns_median > 0 ? " and as safe if the job differs" : "";
  if (workload.mode == Mode::wait) {
    return is_shared(winner) && !is_shared(fastest)
               ? "A home that both sides have in turn is preferred where training waits"
               : format_text("Of splits so close{}, the one with the shortest step is preferred", safe);
  }
  if (!is_shared(winner) && is_shared(fastest))
    return "Homes that are divided are preferred where the sides overlap";
  return format_text("Of pools so close{}, the smallest is preferred", safe);
}

/// Says that the winner is the fastest, or why it is preferred to the fastest.
std::string reason_for_fastest(const Evidence& evidence, const Workload& workload, std::size_t index,
                               const Quoted& quoted) {
  const CandidateEvidence& winner = evidence.candidates[index];
  const CandidateEvidence& fastest = fastest_of(evidence);
  const std::string period = period_in_words(quoted);
  const auto eligible = std::count_if(evidence.candidates.begin(), evidence.candidates.end(), is_eligible);
  if (eligible == 1) {
    return format_text("Only one split that a plan can express was measured: {}. A period takes {}",
                       winner.label, period);
  }
  if (winner.id == fastest.id) {
    return format_text(
        "Of the splits that a plan can express, \"{}\" had the shortest period in the search{}{}. {}",
        winner.label, quoted.by_check ? ". It takes " : ", ", period, cores_in_words(winner));
  }
  return format_text(
      "The split \"{}\" is preferred. It takes {}. In the search its period was within {:.1f} % of the "
      "shortest that a plan can express, that of \"{}\". {}. {}",
      winner.label, period, 100 * tie_of(evidence.accuracy_wanted, evidence.noise_floor), fastest.label,
      preference_in_words(winner, fastest, workload), cores_in_words(winner));
}

/// Returns the name of a split that would have won, for comparison_in_words().
std::string refuted_name(const CandidateEvidence& refuted, const char* by = "which the search preferred") {
  return format_text("{}, {},", name_in_words(refuted.control, refuted.label), by);
}

/// Says why the winner is preferred to a split that is as fast or faster.
std::string reason_for_safer(const Evidence& evidence, const Workload& workload, std::size_t winner,
                             std::size_t instead_of, const Quoted& quoted) {
  const CandidateEvidence& chosen = evidence.candidates[winner];
  const CandidateEvidence& other = evidence.candidates[instead_of];
  const Contest contest = contest_of(evidence, workload);
  const Risks risks = risks_of(contest);
  const auto loss = [&](std::size_t i) { return 100 * risks.loss_if_it_differs(contest.times_of(i)); };
  return format_text(
      "The split \"{}\" takes {}, and it is safer if the job differs from its workload. \"{}\" had the "
      "shortest period in the search, but if training is {:g} times as fast, or the step {:g} times as long, "
      "it loses {:.1f} % to the best split, and this one {:.1f} %. {}",
      chosen.label, period_in_words(quoted), other.label, kDiffers, kDiffers, loss(instead_of), loss(winner),
      cores_in_words(chosen));
}

/// Says that later visits decided against the split that would have been chosen.
std::string reason_for_corrected(const Evidence& evidence, const Workload& workload,
                                 const CandidateEvidence& winner, const CandidateEvidence& refuted,
                                 const CandidateEvidence& beaten_by, const Quoted& quoted) {
  Comparison slower = compared(evidence, workload, refuted.id, beaten_by.id);
  slower.name = refuted_name(refuted);
  if (beaten_by.id != winner.id) slower.other = name_in_words(beaten_by.control, beaten_by.label);
  return format_text("The split \"{}\" takes {}. Visits after the choice decided against another one. {}. {}",
                     winner.label, period_in_words(quoted), comparison_in_words(slower),
                     cores_in_words(winner));
}

/// Says why the plan is the shared home although the search preferred another split.
std::string reason_for_not_shown(const Evidence& evidence, const Workload& workload,
                                 const CandidateEvidence& home, const CandidateEvidence& refuted,
                                 const Quoted& quoted) {
  Comparison comparison = compared(evidence, workload, refuted.id, home.id);
  comparison.name = refuted_name(refuted, "which would win otherwise");
  const std::string known = comparison.longer.is_known()
                                ? comparison_in_words(comparison)
                                : format_text("How \"{}\" compares with it is not known", refuted.label);
  return format_text(
      "The plan is the shared home, which takes {}: equal splits may differ by {:.1f} % here, and no other "
      "split was shown to be faster. {}. No side loses a core",
      period_in_words(quoted), 100 * evidence.noise_floor, known);
}

/// Says why the decision fell as it did, and how the two sides make the period.
std::string grounds_in_words(const Evidence& evidence, const Workload& workload, const Decision& decision) {
  const CandidateEvidence& chosen = evidence.candidates[decision.winner];
  const CandidateEvidence& other = evidence.candidates[decision.instead_of];
  const Quoted quoted = quoted_of(evidence, workload, decision.winner);
  if (decision.grounds == Grounds::not_shown)
    return reason_for_not_shown(evidence, workload, chosen, other, quoted);
  const std::string grounds =
      decision.grounds == Grounds::fastest ? reason_for_fastest(evidence, workload, decision.winner, quoted)
      : decision.grounds == Grounds::safer
          ? reason_for_safer(evidence, workload, decision.winner, decision.instead_of, quoted)
          : reason_for_corrected(evidence, workload, chosen, other, evidence.candidates[decision.beaten_by],
                                 quoted);
  return grounds + ". " + sides_in_words(quoted.times, schedule_of(workload, evidence.scale));
}

}  // namespace

std::string reason_of(const Evidence& evidence, const Workload& workload, const Decision& decision,
                      Nanoseconds telling_budget_ns) {
  return grounds_in_words(evidence, workload, decision) +
         comparisons_in_words(evidence, workload, decision, telling_budget_ns);
}

std::string advice_of(const Decision& decision) {
  return decision.unbound_is_better ? ". No plan can express that: run this job unbound" : "";
}

std::string outliers_in_words(const Evidence& evidence, const Workload& workload) {
  const Schedule schedule = schedule_of(workload, evidence.scale);
  int left_out = 0;
  std::size_t all = 0;
  for (const VisitsOf which : {VisitsOf::search, VisitsOf::check}) {
    const auto visits = visits_of(evidence, schedule, which);
    left_out += levels_of(evidence, visits).left_out();
    all += visits.size();
  }
  if (left_out == 0) return "";
  return format_text("{} of {} visits {} left out: other visits of the same splits contradict {}", left_out,
                     all, left_out == 1 ? "is" : "are", left_out == 1 ? "it" : "them");
}

std::string noise_warning(const Evidence& evidence) {
  const double reached = evidence.accuracy_reached < 1 ? evidence.accuracy_reached : 0;  // 1: unknown
  const double noise = std::max(evidence.noise_floor, reached);
  if (noise <= kVeryNoisy) return "";
  return format_text(
      "this machine was very noisy: equal splits may differ by {:.0f} % here, so the measurement says "
      "little. Measure again when nothing else runs on these cores",
      100 * noise);
}

}  // namespace zf
