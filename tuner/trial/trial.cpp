#include "trial/trial.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.hpp"
#include "search/decision.hpp"
#include "text/statistics.hpp"

namespace zf {
namespace {

/// Returns the shape from which a candidate of the sweep was made. One without reserved cores shares the
/// home: any other leaves at least one core to training.
SplitShape measured_shape(const CandidateEvidence& candidate) {
  SplitShape shape;
  shape.pool_cores = candidate.pool_cores;
  shape.pool_pus_per_core = candidate.pool_threads > candidate.pool_cores ? 0 : 1;
  shape.placement = candidate.placement;
  shape.reserved_cores = candidate.idle_cores > 0 ? candidate.reserved_cores : 0;
  shape.pool_kind = candidate.pool_kind;
  shape.control = candidate.control;
  shape.shared = candidate.reserved_cores == 0;
  return shape;
}

/// Returns the shape of this candidate with pools of half, twice and four times as many cores, as far as
/// every home has them. A home that is not shared keeps at least one core for training.
std::vector<SplitShape> other_sizes(const CandidateEvidence& candidate, const std::vector<Home>& homes) {
  SplitShape shape = measured_shape(candidate);
  shape.control = Control::none;
  shape.reserved_cores = 0;
  int most = std::numeric_limits<int>::max();
  for (const Home& home : homes)
    most = std::min(most, static_cast<int>(home.cores.size()) - (shape.shared ? 0 : 1));
  std::vector<SplitShape> shapes;
  for (const int cores : {candidate.pool_cores / 2, candidate.pool_cores * 2, candidate.pool_cores * 4}) {
    if (cores < 1 || cores > most) continue;
    shape.pool_cores = cores;
    shapes.push_back(shape);
  }
  return shapes;
}

std::vector<double> values_of(const TrialCandidate& candidate) {
  std::vector<double> values;
  for (const auto& run : candidate.runs) values.insert(values.end(), run.begin(), run.end());
  return values;
}

bool may_win(const TrialCandidate& candidate) { return candidate.control != Control::unbound; }

/// Returns the best median of a candidate that may win, over all of its runs; nothing before one has run.
std::optional<double> best_median(const Trial& trial) {
  std::optional<double> best;
  for (const TrialCandidate& candidate : trial.candidates) {
    if (!may_win(candidate) || candidate.runs.empty()) continue;
    const double value = median(values_of(candidate));
    if (!best || (trial.higher_is_better ? value > *best : value < *best)) best = value;
  }
  return best;
}

/// Returns the runs as a contest: a run is a visit, its value is the median as a time (the reciprocal if
/// higher is better), and blocks are repetitions.
Contest contest_of(const Trial& trial, Mode mode) {
  std::vector<Visit> visits;
  std::vector<Contender> contenders;
  for (std::size_t i = 0; i < trial.candidates.size(); ++i) {
    const TrialCandidate& candidate = trial.candidates[i];
    Contender contender;
    contender.eligible = may_win(candidate);
    contender.control = candidate.control;
    contender.shared = candidate.shared;
    contender.pool.threads = candidate.pool_threads;
    contenders.push_back(contender);
    for (std::size_t run = 0; run < candidate.runs.size(); ++run) {
      const double value = median(candidate.runs[run]);
      visits.push_back({i, static_cast<int>(run), trial.higher_is_better ? 1 / value : value});
    }
  }
  Contest contest{std::move(contenders), {visits, trial.candidates.size()}, mode, kDefaultTie, 0};
  contest.noise = noise_between_visits(contest.levels, contest.levels.visits(fastest_index(contest)));
  return contest;
}

}  // namespace

std::vector<TrialSplit> trial_splits(const Evidence& evidence, const std::vector<Home>& homes, int sizes) {
  std::vector<TrialSplit> splits;
  const auto add = [&](const SplitShape& shape, int id) {
    Split split = split_of(homes, shape);
    const bool known = std::any_of(splits.begin(), splits.end(),
                                   [&](const TrialSplit& other) { return other.split.ranks == split.ranks; });
    if (!known) splits.push_back({std::move(split), id});
  };
  std::vector<CandidateEvidence> measured = evidence.candidates;
  std::stable_sort(measured.begin(), measured.end(),
                   [](const auto& a, const auto& b) { return a.period_ns_median < b.period_ns_median; });
  std::erase_if(measured, [](const CandidateEvidence& candidate) { return !is_eligible(candidate); });
  const auto wants_more = [&] { return static_cast<int>(splits.size()) < sizes; };
  if (!measured.empty() && wants_more()) {
    add(measured_shape(measured.front()), measured.front().id);
    for (const SplitShape& shape : other_sizes(measured.front(), homes)) {
      const auto known = std::find_if(measured.begin(), measured.end(), [&](const auto& candidate) {
        return split_of(homes, measured_shape(candidate)).ranks == split_of(homes, shape).ranks;
      });
      if (wants_more()) add(shape, known == measured.end() ? -1 : known->id);
    }
  }
  for (const CandidateEvidence& candidate : measured) {
    if (wants_more()) add(measured_shape(candidate), candidate.id);
  }
  for (const Control control : {Control::shared, Control::half, Control::eighty_twenty, Control::unbound}) {
    const auto found = std::find_if(evidence.candidates.begin(), evidence.candidates.end(),
                                    [&](const auto& candidate) { return candidate.control == control; });
    add(control_shape(control), found == evidence.candidates.end() ? -1 : found->id);
  }
  return splits;
}

Metric::Metric(std::string pattern) : pattern_(std::move(pattern)) {
  constexpr const char* kNext =
      R"(it must find one number in a line of the command's output, e.g. 'step time: ([0-9.]+) ms')";
  constexpr std::size_t kLongest = 1000;  // std::regex recurses into nested groups
  if (pattern_.size() > kLongest) {
    throw Error(Exit::usage,
                fmt::format("zf-tune trial: --metric has {} characters, but at most {} are allowed",
                            pattern_.size(), kLongest),
                kNext);
  }
  try {
    regex_.assign(pattern_);
  } catch (const std::regex_error& error) {
    throw Error(
        Exit::usage,
        fmt::format("zf-tune trial: --metric {} is not a regular expression: {}", pattern_, error.what()),
        kNext);
  }
  if (regex_.mark_count() > 1) {
    throw Error(Exit::usage,
                fmt::format("zf-tune trial: --metric {} has {} groups, but may have only one", pattern_,
                            regex_.mark_count()),
                "keep the group around the number, and write the others as (?:...)");
  }
}

std::optional<std::string> Metric::match_in(std::string_view line) const {
  line = line.substr(0, kMetricColumns);
  std::match_results<std::string_view::const_iterator> match;
  if (!std::regex_search(line.begin(), line.end(), match, regex_)) return std::nullopt;
  const auto& found = match[match.size() - 1];
  return found.matched ? std::optional(found.str()) : std::nullopt;
}

std::optional<double> metric_value(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value) || value <= 0)
    return std::nullopt;
  return value;
}

std::size_t warmup_of(std::size_t values, std::optional<int> asked) {
  if (values == 0) return 0;
  const std::size_t wanted = asked ? static_cast<std::size_t>(*asked) : std::max<std::size_t>(1, values / 5);
  return std::min(wanted, values - 1);
}

bool cannot_win(const Trial& trial, std::size_t candidate, const std::vector<double>& present,
                std::optional<double> noise) {
  constexpr std::size_t kEnough = 5;
  constexpr double kFactor = 2;
  constexpr double kSmallestFactor = 1.25;
  const auto best = best_median(trial);
  std::vector<double> values = values_of(trial.candidates[candidate]);
  values.insert(values.end(), present.begin(), present.end());
  if (!best || values.size() < kEnough) return false;
  const double factor = noise ? std::clamp(1 + 3 * *noise, kSmallestFactor, kFactor) : kFactor;
  return trial.higher_is_better ? quantile(std::move(values), 0.75) * factor < *best
                                : quantile(std::move(values), 0.25) > *best * factor;
}

double noise_between_runs(const Trial& trial) { return contest_of(trial, kDefaultMode).noise; }

std::string judge_trial(Trial& trial, Mode mode) {
  for (TrialCandidate& candidate : trial.candidates) candidate.median = median(values_of(candidate));
  const Contest contest = contest_of(trial, mode);
  const Verdict verdict = judge(contest);
  assert(contest.contenders[verdict.winner].eligible);
  trial.winner = static_cast<int>(verdict.winner);
  const TrialCandidate& winner = trial.candidates[verdict.winner];
  const TrialCandidate& best = trial.candidates[verdict.fastest];

  std::string reason =
      fmt::format("The job itself was timed: the median is {:.4g} with \"{}\"", winner.median, winner.label);
  if (verdict.conservative) {
    reason += fmt::format(
        ". This is the conservative plan: runs under the same split differ by {:.1f} %, and no split is "
        "better by more than that (the best median is {:.4g} with \"{}\")",
        100 * contest.noise, best.median, best.label);
  } else if (verdict.winner != verdict.fastest) {
    reason += fmt::format(". It ties (within {:.1f} %) with the best, {:.4g} with \"{}\", and is preferred",
                          100 * verdict.tie, best.median, best.label);
  } else {
    reason +=
        fmt::format(". That is the best of {} split{}; differences within {:.1f} % are ties",
                    trial.candidates.size(), trial.candidates.size() == 1 ? "" : "s", 100 * verdict.tie);
  }
  if (const auto unbound = control_index(contest, Control::unbound)) {
    if (contest.levels.difference(*unbound, verdict.winner).low > kDefaultTie) {
      reason += fmt::format(
          ". But unbound was better still: {:.4g}. No plan can express that: run this job unbound",
          trial.candidates[*unbound].median);
    }
  }
  return reason;
}

}  // namespace zf
