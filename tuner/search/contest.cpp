#include "search/contest.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <optional>
#include <tuple>

#include "base/state_format.hpp"
#include "compare/statistics.hpp"
#include "measure/disturbance.hpp"
#include "search/period_levels.hpp"

namespace zf {
namespace {

/// A step slower than this part of the roofline is not believed: the process was stopped, or the machine
/// asleep. No simulated machine does so; with 0 no figure of `regret 3 2` changes.
constexpr double kSlowestPart = 0.1;
/// Stands for an unbounded interval. Only printed.
constexpr double kUnknownAccuracy = 1;
/// The quantile of the normal distribution that an interval of 95 % has. A definition.
constexpr double kNormal95 = 1.96;

/// Summarizes a candidate by its samples of the search. times: fitted to these samples.
void summarize_candidate(CandidateEvidence& candidate, const SplitTimes& times, const Evidence& evidence,
                         const Schedule& schedule) {
  std::vector<double> period;
  std::vector<double> step;
  std::vector<double> training;
  std::vector<double> delay_p50;
  std::vector<double> delay_p99;
  std::vector<double> ratio;
  for (const auto& [id, round, sample] : evidence.samples) {
    if (id != candidate.id || came_after_choice(evidence, {id, round, sample})) continue;
    period.push_back(period_ns(sample, schedule));
    step.push_back(static_cast<double>(sample.step_ns));
    training.push_back(static_cast<double>(sample.training_ns));
    delay_p50.push_back(static_cast<double>(sample.launch_delay_p50_ns));
    delay_p99.push_back(static_cast<double>(sample.launch_delay_p99_ns));
    ratio.push_back(static_cast<double>(sample.roofline_ns) / static_cast<double>(sample.step_ns));
  }
  if (period.empty()) return;
  candidate.period_ns_median = std::llround(times.period);
  candidate.period_spread = relative_spread(period);
  candidate.step_ns_median = std::llround(times.step);
  candidate.step_spread = relative_spread(step);
  candidate.training_ns_median = std::llround(times.training);
  candidate.training_spread = candidate.training_ns_median == 0 ? 0 : relative_spread(training);
  candidate.exposed_ns_median =
      std::llround(exposed_of(static_cast<double>(candidate.training_ns_median),
                              static_cast<double>(candidate.step_ns_median), schedule));
  candidate.launch_delay_p50_ns = std::llround(median(delay_p50));
  candidate.launch_delay_p99_ns = std::llround(median(delay_p99));
  candidate.roofline_ratio = median(ratio);
}

void summarize_roofline(Evidence& evidence, int ranks, StateFormat format) {
  const CandidateEvidence& fastest = fastest_of(evidence);
  std::vector<double> rooflines;
  for (const Sample& sample : evidence.samples) {
    if (sample.candidate == fastest.id) rooflines.push_back(static_cast<double>(sample.times.roofline_ns));
  }
  if (rooflines.empty()) return;
  const auto bytes = static_cast<double>(evidence.elements_per_rank * measured_step_bytes(format)) * ranks;
  evidence.roofline.bytes_per_s_median = bytes / (median(rooflines) / static_cast<double>(kSecondNs));
  evidence.roofline.threads = fastest.pool_threads * ranks;
}

/// Returns half of the interval of the difference between two candidates.
double accuracy_of(const Difference& difference) {
  return difference.is_known() ? std::min(difference.half_width(), kUnknownAccuracy) : kUnknownAccuracy;
}

}  // namespace

const CandidateEvidence* control_of(const Evidence& evidence, Control control) {
  for (const CandidateEvidence& candidate : evidence.candidates) {
    if (candidate.control == control) return &candidate;
  }
  return nullptr;
}

CandidateEvidence new_candidate(int id, const Split& split) {
  CandidateEvidence candidate;
  candidate.id = id;
  candidate.label = split.label;
  candidate.control = split.shape.control;
  candidate.placement = split.shape.placement;
  candidate.pool_make = split.shape.pool_make;
  candidate.reserved_cores = split.ranks.front().reserved_cores;
  for (const RankSplit& rank : split.ranks) {
    candidate.reserved_cores = std::min(candidate.reserved_cores, rank.reserved_cores);
    candidate.pool_cores = std::max(candidate.pool_cores, rank.pool_cores);
    candidate.pool_threads = std::max(candidate.pool_threads, static_cast<int>(rank.pool.size()));
    candidate.idle_cores = std::max(candidate.idle_cores, rank.idle_cores);
  }
  return candidate;
}

bool is_eligible(const CandidateEvidence& candidate) { return candidate.control != Control::unbound; }

bool is_shared(const CandidateEvidence& candidate) { return candidate.reserved_cores == 0; }

Nanoseconds job_step_ns(const CandidateEvidence& candidate, const Workload& workload) {
  return std::llround(workload.step_factor.value_or(1) * static_cast<double>(candidate.step_ns_median));
}

bool is_possible(const SplitSample& sample, double noise) {
  const double ratio = static_cast<double>(sample.roofline_ns) / static_cast<double>(sample.step_ns);
  return ratio <= 1 + std::max(kMaxStepAboveRoofline, 3 * noise) && ratio >= kSlowestPart;
}

void summarize(Evidence& evidence, const Workload& workload, StateFormat format) {
  const Schedule schedule = schedule_of(workload, evidence.scale);
  const auto visits = visits_of(evidence, schedule, VisitsOf::search);
  const Levels levels = levels_of(evidence, visits);
  const auto times = fitted_times(visits, levels, schedule);
  int most_visits = 1;
  for (std::size_t i = 0; i < evidence.candidates.size(); ++i) {
    if (!levels.has(i)) continue;
    summarize_candidate(evidence.candidates[i], times[i], evidence, schedule);
    if (is_eligible(evidence.candidates[i])) most_visits = std::max(most_visits, levels.visits(i));
  }
  std::vector<double> errors;
  for (const SweepVisit& visit : visits) {
    if (visit.samples.size() > 1) errors.push_back(visit.period.error);
  }
  evidence.noise_floor = noise_of(levels, errors, most_visits);
  const Contest contest = contest_of(evidence, workload);
  const std::size_t winner = judge(contest).winner;
  const auto second = runner_up_of(contest, winner);
  evidence.accuracy_reached = second ? accuracy_of(contest.difference(winner, *second)) : 0;
  summarize_roofline(evidence, workload.ranks, format);
}

double noise_of(const Levels& levels, const std::vector<double>& errors, int visits) {
  const bool by_errors = levels.freedom() == 0 && !errors.empty();
  return kNormal95 * (by_errors ? median(errors) : levels.noise()) * std::sqrt(2.0 / visits);
}

Levels levels_of(const Trial& trial) {
  std::vector<Visit> visits;
  for (std::size_t i = 0; i < trial.candidates.size(); ++i) {
    const auto& runs = trial.candidates[i].runs;
    for (std::size_t run = 0; run < runs.size(); ++run) {
      const double value = median(runs[run]);
      visits.push_back({i, static_cast<int>(run), trial.higher_is_better ? 1 / value : value});
    }
  }
  return {visits, trial.candidates.size()};
}

Contest contest_of(const Evidence& evidence, const Workload& workload) {
  const Schedule schedule = schedule_of(workload, evidence.scale);
  const auto levels = [&](VisitsOf which) {
    return levels_of(evidence, visits_of(evidence, schedule, which));
  };
  Contest contest{{},       levels(VisitsOf::search), levels(VisitsOf::check),
                  schedule, evidence.accuracy_wanted, evidence.noise_floor};
  for (const CandidateEvidence& candidate : evidence.candidates) {
    contest.contenders.push_back({.eligible = is_eligible(candidate),
                                  .control = candidate.control,
                                  .shared = is_shared(candidate),
                                  .pool_threads = candidate.pool_threads,
                                  .pool_cores = candidate.pool_cores,
                                  .idle = candidate.idle_cores,
                                  .training = static_cast<double>(candidate.training_ns_median),
                                  .step = static_cast<double>(candidate.step_ns_median)});
  }
  return contest;
}

Contest contest_of(const Trial& trial, Mode mode) {
  const Levels no_checks({}, trial.candidates.size());
  Contest contest{{}, levels_of(trial), no_checks, {.mode = mode}};
  std::vector<double> errors;
  for (const TrialCandidate& candidate : trial.candidates) {
    contest.contenders.push_back({.eligible = candidate.control != Control::unbound,
                                  .control = candidate.control,
                                  .shared = candidate.shared,
                                  .pool_threads = candidate.pool_threads});
    for (const std::vector<double>& run : candidate.runs) {
      if (run.size() > 1) errors.push_back(median_error(run));
    }
  }
  contest.noise = noise_of(contest.levels, errors, contest.levels.visits(fastest_index(contest)));
  return contest;
}

const CandidateEvidence& fastest_of(const Evidence& evidence) {
  assert(!evidence.candidates.empty());
  const auto key = [](const CandidateEvidence& candidate) {
    return std::tuple(!is_eligible(candidate), candidate.period_ns_median == 0, candidate.period_ns_median);
  };
  return *std::min_element(evidence.candidates.begin(), evidence.candidates.end(),
                           [&](const auto& a, const auto& b) { return key(a) < key(b); });
}

std::vector<int> candidates_to_revisit(const Evidence& evidence, const Workload& workload, std::size_t most) {
  const Contest contest = contest_of(evidence, workload);
  const Judgement judgement = judge(contest);
  const Risks risks = risks_of(contest);
  const auto risk = [&](std::size_t i) { return risks.risk(contest.times_of(i)); };
  const double better = risk(judgement.winner) - judgement.same_risk;
  std::vector<std::size_t> undecided;
  for (std::size_t i = 0; i < contest.contenders.size(); ++i) {
    if (i == judgement.winner || !contest.can_win(i)) continue;
    const double half_width = contest.levels.difference(judgement.winner, i).half_width();
    const bool may_compete =
        risks.loss(contest.times_of(i)) - half_width <= kLargestTie * evidence.accuracy_wanted;
    if (may_compete && risk(i) - half_width < better) undecided.push_back(i);
  }
  if (undecided.empty()) return {};
  std::stable_sort(undecided.begin(), undecided.end(),
                   [&](std::size_t a, std::size_t b) { return risk(a) < risk(b); });
  undecided.insert(undecided.begin(), judgement.winner);
  if (undecided.size() > most) undecided.resize(most);
  std::vector<int> ids;
  for (const std::size_t i : undecided) ids.push_back(evidence.candidates[i].id);
  std::sort(ids.begin(), ids.end());
  return ids;
}

}  // namespace zf
