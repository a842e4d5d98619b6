#include "tuner/trial.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cmath>
#include <tuple>

#include "base/error.hpp"
#include "tuner/choose.hpp"
#include "tuner/statistics.hpp"

namespace zf {
namespace {

/// The shape that a candidate of the sweep was made of.
SplitShape shape_of(const CandidateEvidence& candidate) {
  SplitShape shape;
  shape.pool_cores = candidate.pool_cores;
  shape.pool_pus_per_core = candidate.pool_threads > candidate.pool_cores ? 0 : 1;
  shape.placement = candidate.placement;
  shape.reserved_cores = candidate.idle_cores > 0 ? candidate.reserved_cores : 0;
  shape.pool_kind = candidate.pool_kind;
  shape.control = candidate.control;
  return shape;
}

SplitShape control_shape(Control control) {
  SplitShape shape;
  shape.control = control;
  return shape;
}

std::vector<double> all_values(const TrialCandidate& candidate) {
  std::vector<double> values;
  for (const auto& run : candidate.runs) values.insert(values.end(), run.begin(), run.end());
  return values;
}

/// By how much `value` is worse than `best`, relative.
double loss(const Trial& trial, double value, double best) {
  return trial.higher_is_better ? best / value - 1 : value / best - 1;
}

bool is_eligible(const TrialCandidate& candidate) { return candidate.control != Control::unbound; }

}  // namespace

std::vector<TrialSplit> trial_splits(const Evidence& evidence, const std::vector<Home>& homes, int best) {
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
  for (const CandidateEvidence& candidate : measured) {
    if (static_cast<int>(splits.size()) == best) break;
    if (is_eligible(candidate)) add(shape_of(candidate), candidate.id);
  }
  for (const Control control : {Control::half, Control::two_reserved, Control::unbound}) {
    const auto found = std::find_if(measured.begin(), measured.end(),
                                    [&](const auto& candidate) { return candidate.control == control; });
    add(control_shape(control), found == measured.end() ? -1 : found->id);
  }
  return splits;
}

Metric::Metric(std::string pattern) : pattern_(std::move(pattern)) {
  constexpr const char* kNext =
      R"(it must find one number in a line of the command's output, e.g. 'step time: ([0-9.]+) ms')";
  try {
    regex_.assign(pattern_);
  } catch (const std::regex_error& error) {
    throw Error(
        Exit::usage,
        fmt::format("zf-tune trial: --metric {} is no regular expression: {}", pattern_, error.what()),
        kNext);
  }
  if (regex_.mark_count() > 1) {
    throw Error(Exit::usage,
                fmt::format("zf-tune trial: --metric {} has {} groups", pattern_, regex_.mark_count()),
                "keep the one around the number; (?:...) groups without counting");
  }
}

std::optional<double> Metric::value_in(std::string_view line) const {
  std::match_results<std::string_view::const_iterator> match;
  if (!std::regex_search(line.begin(), line.end(), match, regex_)) return std::nullopt;
  const auto& found = match[match.size() - 1];
  if (!found.matched) return std::nullopt;
  const std::string text = found.str();
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

double noise_of(const Trial& trial) {
  std::vector<double> ranges;
  for (const TrialCandidate& candidate : trial.candidates) {
    if (candidate.runs.size() < 2) continue;
    std::vector<double> medians;
    for (const auto& run : candidate.runs) medians.push_back(median(run));
    const auto [low, high] = std::minmax_element(medians.begin(), medians.end());
    ranges.push_back((*high - *low) / median(medians));
  }
  return ranges.empty() ? 0 : median(ranges);
}

std::string judge(Trial& trial) {
  for (TrialCandidate& candidate : trial.candidates) candidate.median = median(all_values(candidate));
  const auto better = [&](const TrialCandidate& a, const TrialCandidate& b) {
    return trial.higher_is_better ? a.median > b.median : a.median < b.median;
  };
  const auto& fastest = *std::min_element(trial.candidates.begin(), trial.candidates.end(),
                                          [&](const TrialCandidate& a, const TrialCandidate& b) {
                                            if (is_eligible(a) != is_eligible(b)) return is_eligible(a);
                                            return better(a, b);
                                          });
  assert(is_eligible(fastest));
  const double tie = std::max(kTie, noise_of(trial));
  const auto rank = [&](const TrialCandidate& candidate) {
    const double lost = loss(trial, candidate.median, fastest.median);
    return std::tuple(!is_eligible(candidate), lost > tie, candidate.pool_threads, lost);
  };
  const auto winner =
      std::min_element(trial.candidates.begin(), trial.candidates.end(),
                       [&](const TrialCandidate& a, const TrialCandidate& b) { return rank(a) < rank(b); });
  trial.winner = static_cast<int>(winner - trial.candidates.begin());

  std::string reason = fmt::format("the job itself: {:.4g} with {}", winner->median, winner->label);
  if (&*winner != &fastest) {
    reason += fmt::format(", a tie (within {:.1f} %) with the best ({:.4g} with {}), and the smaller pool",
                          100 * tie, fastest.median, fastest.label);
  } else {
    reason +=
        fmt::format(", the best of {} splits (ties within {:.1f} %)", trial.candidates.size(), 100 * tie);
  }
  for (const TrialCandidate& other : trial.candidates) {
    const bool unbound_wins = !is_eligible(other) && loss(trial, winner->median, other.median) > tie;
    if (!unbound_wins) continue;
    reason += fmt::format(
        "; unbound was better still, {:.4g}, which no plan can say: start the job without one", other.median);
  }
  return reason;
}

}  // namespace zf
