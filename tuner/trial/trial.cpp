#include "trial/trial.hpp"

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "base/error.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "compare/statistics.hpp"
#include "search/comparison_words.hpp"
#include "search/comparisons.hpp"
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

bool is_noise_known(const Contest& contest) { return contest.levels.freedom() > 0; }

/// Says why this split won.
std::string grounds_in_words(const Trial& trial, const Contest& contest, const Decision& decision) {
  if (decision.grounds == Grounds::not_shown) {
    return format_text(
        ". Runs under the same split {}differ by {:.1f} %, and no other split was shown to be better",
        is_noise_known(contest) ? "" : "may ", 100 * contest.noise);
  }
  const std::size_t fastest = fastest_index(contest);
  if (decision.winner != fastest) {
    const TrialCandidate& best = trial.candidates[fastest];
    return format_text(
        ". It is preferred: its median is within {:.1f} % of the best that a plan can express, "
        "{:.4g} with \"{}\"",
        100 * tie_of(contest.accuracy, contest.noise), best.median, best.label);
  }
  const auto eligible = std::count_if(trial.candidates.begin(), trial.candidates.end(), may_win);
  if (eligible == 1) return ". No other binding was tried";
  return format_text(". That is the best median of {} splits that a plan can express", eligible);
}

/// Returns ". 1 run is left out: other runs under the same splits contradict it"; "" if none is.
std::string outliers_in_words(const Contest& contest) {
  const int count = contest.levels.left_out();
  if (count == 0) return "";
  return format_text(". {} {} left out: other runs under the same splits contradict {}",
                     print_count(count, "run"), count == 1 ? "is" : "are", count == 1 ? "it" : "them");
}

/// Returns the eligible split that is best after the winner, with that in its name; nothing if there is none.
std::optional<Comparison> rival_of(const Trial& trial, const Contest& contest, const Decision& decision) {
  const auto second = runner_up_of(contest, decision.winner);
  if (!second) return std::nullopt;
  Comparison rival = compared(trial, *second, decision.winner);
  rival.name = *second == fastest_index(contest) ? format_text("{}, which had a better median,", rival.name)
                                                 : format_text("the next best, {},", rival.name);
  return rival;
}

/// Says how the next best split and unbound compare with the winner; that nothing is known, if so; and what
/// to do if unbound is faster.
std::string comparisons_in_words(const Trial& trial, const Contest& contest, const Decision& decision) {
  const auto rival = rival_of(trial, contest, decision);
  const auto index = control_index(contest, Control::unbound);
  std::string text;
  if ((rival || index) && !is_noise_known(contest)) {
    text += ". " + unknown_differences_in_words(trial) + ". More runs (--trials) would tell";
  } else {
    if (rival) text += ". " + comparison_in_words(*rival);
    if (index) text += ". " + comparison_in_words(compared(trial, *index, decision.winner));
  }
  if (!index) return text + ". Unbound was not tried";
  return is_unbound_better(trial) ? text + ". No plan can express that: run this job unbound" : text;
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

std::string judge_trial(Trial& trial, Mode mode) {
  const Contest contest = contest_of(trial, mode);
  for (std::size_t i = 0; i < trial.candidates.size(); ++i) {
    const double level = contest.levels.of(i);
    trial.candidates[i].median = without_rounding_error(trial.higher_is_better ? 1 / level : level);
  }
  const Decision decision = decide(contest);
  assert(contest.contenders[decision.winner].eligible);
  trial.winner = static_cast<int>(decision.winner);
  const TrialCandidate& winner = trial.candidates[decision.winner];
  return format_text("The job itself was timed: {:.4g} with \"{}\"", winner.median, winner.label) +
         grounds_in_words(trial, contest, decision) + outliers_in_words(contest) +
         comparisons_in_words(trial, contest, decision);
}

}  // namespace zf
