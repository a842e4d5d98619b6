#include "trial/trial.hpp"

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "base/error.hpp"
#include "base/format.hpp"
#include "compare/statistics.hpp"
#include "search/contest.hpp"

namespace zf {
namespace {

std::vector<double> values_of(const TrialCandidate& candidate) {
  std::vector<double> values;
  for (const auto& run : candidate.runs) values.insert(values.end(), run.begin(), run.end());
  return values;
}

/// Returns the value with nine significant digits. Levels come through logarithms, which make 100 of equal
/// runs 100.00000000000004.
double without_rounding_error(double value) {
  return std::strtod(format_text("{:.9g}", value).c_str(), nullptr);
}

bool may_win(const TrialCandidate& candidate) { return candidate.control != Control::unbound; }

/// Returns the best median of a candidate that may win, except one, over all of its runs; nothing before one
/// has run.
std::optional<double> best_median_except(const Trial& trial, std::size_t one) {
  std::optional<double> best;
  for (std::size_t i = 0; i < trial.candidates.size(); ++i) {
    const TrialCandidate& candidate = trial.candidates[i];
    if (i == one || !may_win(candidate) || candidate.runs.empty()) continue;
    const double value = median(values_of(candidate));
    if (!best || (trial.higher_is_better ? value > *best : value < *best)) best = value;
  }
  return best;
}

}  // namespace

Metric::Metric(std::string pattern) : pattern_(std::move(pattern)) {
  constexpr const char* kNext =
      R"(it must find one number in a line of the command's output, e.g. 'step time: ([0-9.]+) ms')";
  constexpr std::size_t kLongest = 1000;  // std::regex recurses into nested groups
  if (pattern_.size() > kLongest) {
    throw Error(Exit::usage,
                format_text("zf-tune trial: --metric has {} characters, but at most {} are allowed",
                            pattern_.size(), kLongest),
                kNext);
  }
  try {
    regex_.assign(pattern_);
  } catch (const std::regex_error& error) {
    throw Error(
        Exit::usage,
        format_text("zf-tune trial: --metric {} is not a regular expression: {}", pattern_, error.what()),
        kNext);
  }
  if (regex_.mark_count() > 1) {
    throw Error(Exit::usage,
                format_text("zf-tune trial: --metric {} has {} groups, but may have only one", pattern_,
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
  const auto best = best_median_except(trial, candidate);
  std::vector<double> values = values_of(trial.candidates[candidate]);
  values.insert(values.end(), present.begin(), present.end());
  if (!best || values.size() < kEnough) return false;
  const double factor = noise ? std::clamp(1 + 3 * *noise, kSmallestFactor, kFactor) : kFactor;
  return trial.higher_is_better ? quantile(std::move(values), 0.75) * factor < *best
                                : quantile(std::move(values), 0.25) > *best * factor;
}

std::optional<double> noise_between_runs(const Trial& trial) {
  const Contest contest = contest_of(trial, kDefaultMode);
  return contest.levels.freedom() == 0 ? std::nullopt : std::optional(contest.noise);
}

void judge_trial(Trial& trial, Mode mode) {
  const Contest contest = contest_of(trial, mode);
  for (std::size_t i = 0; i < trial.candidates.size(); ++i) {
    const double level = contest.levels.of(i);
    trial.candidates[i].median = without_rounding_error(trial.higher_is_better ? 1 / level : level);
  }
  const Decision decision = decide(contest);
  assert(contest.contenders[decision.winner].eligible);
  trial.winner = static_cast<int>(decision.winner);
}

}  // namespace zf
