#include "search/decision.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <optional>
#include <tuple>

#include "base/step_types.hpp"
#include "compare/statistics.hpp"
#include "measure/disturbance.hpp"
#include "search/period_levels.hpp"

namespace zf {
namespace {

constexpr double kSlowestPart = 0.1;    // of the roofline: a slower step is not believed
constexpr double kUnknownAccuracy = 1;  // stands for an unbounded interval
/// A choice is good enough if no other split is surely better by more than this many ties.
constexpr double kAcceptable = 1.5;

void summarize_candidate(CandidateEvidence& candidate, const Evidence& evidence, const Schedule& schedule) {
  std::vector<double> period;
  std::vector<double> step;
  std::vector<double> training;
  std::vector<double> exposed;
  std::vector<double> delay_p50;
  std::vector<double> delay_p99;
  std::vector<double> ratio;
  for (const auto& [id, round, times] : evidence.samples) {
    if (id != candidate.id || came_after_choice(evidence, {id, round, times})) continue;
    period.push_back(period_ns(times, schedule));
    step.push_back(static_cast<double>(times.step_ns));
    training.push_back(static_cast<double>(times.training_ns));
    exposed.push_back(exposed_ns(times, schedule));
    delay_p50.push_back(static_cast<double>(times.launch_delay_p50_ns));
    delay_p99.push_back(static_cast<double>(times.launch_delay_p99_ns));
    ratio.push_back(static_cast<double>(times.roofline_ns) / static_cast<double>(times.step_ns));
  }
  if (period.empty()) return;
  candidate.period_spread = relative_spread(period);
  candidate.step_ns_median = std::llround(median(step));
  candidate.step_spread = relative_spread(step);
  candidate.training_ns_median = std::llround(median(training));
  candidate.training_spread = candidate.training_ns_median == 0 ? 0 : relative_spread(training);
  candidate.exposed_ns_median = std::llround(median(exposed));
  candidate.launch_delay_p50_ns = std::llround(median(delay_p50));
  candidate.launch_delay_p99_ns = std::llround(median(delay_p99));
  candidate.roofline_ratio = median(ratio);
}

void summarize_roofline(Evidence& evidence, int ranks) {
  const CandidateEvidence& fastest = fastest_of(evidence);
  std::vector<double> rooflines;
  for (const Sample& sample : evidence.samples) {
    if (sample.candidate == fastest.id) rooflines.push_back(static_cast<double>(sample.times.roofline_ns));
  }
  if (rooflines.empty()) return;
  const auto bytes = static_cast<double>(evidence.elements_per_rank * kAdamBytesPerParam) * ranks;
  evidence.roofline.bytes_per_s_median = bytes / (median(rooflines) / static_cast<double>(kSecondNs));
  evidence.roofline.threads = fastest.pool_threads * ranks;
}

std::size_t index_of(const Evidence& evidence, int id) {
  const auto& candidates = evidence.candidates;
  const auto found = std::find_if(candidates.begin(), candidates.end(),
                                  [&](const CandidateEvidence& candidate) { return candidate.id == id; });
  assert(found != candidates.end());
  return static_cast<std::size_t>(found - candidates.begin());
}

/// Returns half of the interval of the difference between two candidates.
double accuracy_of(const Difference& difference) {
  return difference.is_known() ? std::min(difference.half_width(), kUnknownAccuracy) : kUnknownAccuracy;
}

/// Adds to each contender what it loses if the job is not as told, against the best measured one.
void add_losses_if_wrong(const Evidence& evidence, const Schedule& schedule, Contest& contest) {
  for (const auto& [training, step] : kWaysToBeWrong) {
    std::vector<double> periods;
    double best = std::numeric_limits<double>::infinity();
    for (const CandidateEvidence& candidate : evidence.candidates) {
      periods.push_back(period_of(training * static_cast<double>(candidate.training_ns_median),
                                  step * static_cast<double>(candidate.step_ns_median), schedule));
      if (is_eligible(candidate) && candidate.step_ns_median != 0) best = std::min(best, periods.back());
    }
    for (std::size_t i = 0; i < periods.size(); ++i) {
      double& loss = contest.contenders[i].loss_if_wrong;
      loss = std::max(loss, periods[i] / best - 1);
    }
  }
}

Decision decision_of(const Judgement& judgement) {
  if (judgement.conservative) return {judgement.winner, Grounds::conservative};
  if (judgement.cliff) return {judgement.winner, Grounds::refuge, *judgement.cliff};
  return {judgement.winner, Grounds::preferred};
}

/// Returns what judge() chooses; if the visits after the choice refute that, what it chooses without it.
Decision unrefuted(const Evidence& evidence, const Workload& workload, Contest contest) {
  const Judgement judgement = judge(contest);
  const auto second = runner_up_of(contest, judgement.winner);
  if (!second || evidence.estimate_round < 0) return decision_of(judgement);
  const Difference slower = period_difference(evidence, workload, evidence.candidates[*second].id,
                                              evidence.candidates[judgement.winner].id);
  if (slower.low <= (judgement.cliff ? kWiderTie : 1) * evidence.accuracy_wanted)
    return decision_of(judgement);
  contest.contenders[judgement.winner].eligible = false;
  return {judge(contest).winner, Grounds::second, judgement.winner, *second};
}

/// Returns whether the noise exceeds the accuracy, and by its interval a candidate may be slower than the
/// shared home by more than kMuchSlower.
bool may_be_much_slower(const Evidence& evidence, const Workload& workload, const Contest& contest,
                        std::size_t candidate, std::size_t home) {
  if (contest.noise <= contest.accuracy) return false;
  const Difference slower =
      period_difference(evidence, workload, evidence.candidates[home].id, evidence.candidates[candidate].id);
  return slower.is_known() && slower.high > kMuchSlower;
}

/// Returns whether running unbound is surely faster than the candidate of this id, by more than the accuracy.
bool loses_to_unbound(const Evidence& evidence, const Workload& workload, int id) {
  const CandidateEvidence* unbound = control_of(evidence, Control::unbound);
  return unbound != nullptr &&
         period_difference(evidence, workload, unbound->id, id).low > evidence.accuracy_wanted;
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

Contest contest_of(const Evidence& evidence, const Workload& workload) {
  const Schedule schedule = schedule_of(workload, evidence.scale);
  const auto visits = visits_of(evidence, schedule, VisitsOf::search);
  Contest contest{
      {}, levels_of(evidence, visits), workload.mode, evidence.accuracy_wanted, evidence.noise_floor};
  for (const CandidateEvidence& candidate : evidence.candidates) {
    Contender contender;
    contender.eligible = is_eligible(candidate);
    contender.control = candidate.control;
    contender.shared = is_shared(candidate);
    contender.pool = {candidate.pool_threads, candidate.pool_cores};
    contender.idle = candidate.idle_cores;
    contender.step = schedule.step_factor * static_cast<double>(candidate.step_ns_median);
    contender.window = window_of(candidate.training_ns_median, schedule);
    contest.contenders.push_back(contender);
  }
  add_losses_if_wrong(evidence, schedule, contest);
  return contest;
}

void summarize(Evidence& evidence, const Workload& workload) {
  const Schedule schedule = schedule_of(workload, evidence.scale);
  for (CandidateEvidence& candidate : evidence.candidates) summarize_candidate(candidate, evidence, schedule);
  const auto visits = visits_of(evidence, schedule, VisitsOf::search);
  const Levels levels = levels_of(evidence, visits);
  int most_visits = 1;
  for (std::size_t i = 0; i < evidence.candidates.size(); ++i) {
    if (!levels.has(i)) continue;
    evidence.candidates[i].period_ns_median = std::llround(levels.of(i));
    if (is_eligible(evidence.candidates[i])) most_visits = std::max(most_visits, levels.visits(i));
  }
  std::vector<std::vector<double>> periods;
  for (const VisitPeriods& visit : visits) periods.push_back(visit.periods);
  evidence.noise_floor = noise_of(levels, periods, most_visits);
  const Contest contest = contest_of(evidence, workload);
  const std::size_t winner = judge(contest).winner;
  const auto second = runner_up_of(contest, winner);
  evidence.accuracy_reached =
      second ? accuracy_of(period_difference(evidence, workload, evidence.candidates[winner].id,
                                             evidence.candidates[*second].id))
             : 0;
  summarize_roofline(evidence, workload.ranks);
}

double tie_of(const Evidence& evidence) { return tie_of(evidence.accuracy_wanted, evidence.noise_floor); }

const CandidateEvidence& fastest_of(const Evidence& evidence) {
  assert(!evidence.candidates.empty());
  const auto key = [](const CandidateEvidence& candidate) {
    return std::tuple(!is_eligible(candidate), candidate.period_ns_median == 0, candidate.period_ns_median);
  };
  return *std::min_element(evidence.candidates.begin(), evidence.candidates.end(),
                           [&](const auto& a, const auto& b) { return key(a) < key(b); });
}

Difference period_difference(const Evidence& evidence, const Workload& workload, int a, int b) {
  const Schedule schedule = schedule_of(workload, evidence.scale);
  const std::size_t first = index_of(evidence, a);
  const std::size_t second = index_of(evidence, b);
  const Levels estimates = levels_of(evidence, visits_of(evidence, schedule, VisitsOf::check));
  if (estimates.has(first) && estimates.has(second)) return estimates.difference(first, second);
  return levels_of(evidence, visits_of(evidence, schedule, VisitsOf::search)).difference(first, second);
}

const CandidateEvidence& preferred_of(const Evidence& evidence, const Workload& workload) {
  return evidence.candidates[judge(contest_of(evidence, workload)).winner];
}

std::vector<int> candidates_to_revisit(const Evidence& evidence, const Workload& workload, std::size_t most) {
  const Contest contest = contest_of(evidence, workload);
  const Judgement judgement = judge(contest);
  std::vector<std::size_t> others;
  for (std::size_t i = 0; i < contest.contenders.size(); ++i) {
    if (i != judgement.winner && contest.contenders[i].eligible && contest.levels.has(i)) others.push_back(i);
  }
  std::stable_sort(others.begin(), others.end(),
                   [&](std::size_t a, std::size_t b) { return contest.levels.of(a) < contest.levels.of(b); });
  if (contest.levels.freedom() >= kFewFreedoms) {
    std::erase_if(others, [&](std::size_t i) {
      return contest.levels.difference(i, judgement.winner).high <= kAcceptable * judgement.tie;
    });
  }
  const auto refuge = undecided_refuge(contest, judgement.winner);
  if (refuge && std::find(others.begin(), others.end(), *refuge) == others.end())
    others.insert(others.begin(), *refuge);
  std::vector<int> ids;
  if (others.empty()) return ids;
  ids.push_back(evidence.candidates[judgement.winner].id);
  for (const std::size_t i : others) {
    if (ids.size() < most) ids.push_back(evidence.candidates[i].id);
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

Decision decide(const Evidence& evidence, const Workload& workload) {
  const Contest contest = contest_of(evidence, workload);
  Decision decision = unrefuted(evidence, workload, contest);
  const auto home = control_index(contest, Control::shared);
  if (home && *home != decision.winner &&
      may_be_much_slower(evidence, workload, contest, decision.winner, *home))
    decision = {*home, Grounds::untold, decision.winner};
  decision.unbound_is_better =
      loses_to_unbound(evidence, workload, evidence.candidates[decision.winner].id) &&
      loses_to_unbound(evidence, workload, fastest_of(evidence).id);
  if (decision.unbound_is_better && home && *home != decision.winner)
    decision = {*home, Grounds::unbound, decision.winner, 0, true};
  return decision;
}

}  // namespace zf
