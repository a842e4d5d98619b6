// Lets the job itself judge: how to read its output, which split cannot win, which split won. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "plan/trial_result.hpp"
#include "plan/workload.hpp"

namespace zf {

/// The number of characters of an output line that a Metric searches.
inline constexpr std::size_t kMetricColumns = 4096;

/// A regular expression that finds a number in a line of the job's output.
class Metric {
 public:
  /// Throws Error(usage) that names --metric if `pattern` is not an ECMAScript expression, has several groups
  /// or has more than 1000 characters.
  explicit Metric(std::string pattern);

  /// Returns what the group matches in the first kMetricColumns of the line, or the whole match if the
  /// pattern has no group; nothing if there is no match. Some expressions take for ever on some lines: see
  /// MetricMatches.
  std::optional<std::string> match_in(std::string_view line) const;
  const std::string& pattern() const { return pattern_; }

 private:
  std::string pattern_;
  std::regex regex_;
};

/// Returns the positive number that `text` spells; nothing if it is not one.
std::optional<double> metric_value(std::string_view text);

/// Returns how many values to discard at the beginning of a run, before the steady state: `asked` if given,
/// otherwise a fifth of them and at least one. Never returns all of them; run_trial() refuses an `asked` that
/// is that large.
std::size_t warmup_of(std::size_t values, std::optional<int> asked);

/// Returns whether a candidate cannot win, if the run that goes on has given `present` so far. It cannot
/// win if it has at least five values, and even the best quarter of them is worse by a factor than the best
/// median of another candidate that may win. So the best candidate can always win. noise: by how much two
/// runs under the same split differ. The factor is 1 + 3 * noise, at least 1.25 and at most 2; it is 2 if
/// the noise is not known.
bool cannot_win(const Trial& trial, std::size_t candidate, const std::vector<double>& present,
                std::optional<double> noise);

/// Fills in the medians, without the drift from one repetition to the next, and the winner. Judges as
/// choose() does for a sweep of a job in this mode, with runs in place of visits and repetitions in place of
/// rounds (decide()). It is not known how long the job's optimizer steps take: of the splits of the preferred
/// kind that tie, the best median wins. Unbound never wins. Precondition: every candidate has a run, no run
/// is empty, and one candidate is eligible.
void judge_trial(Trial& trial, Mode mode);

/// Returns by how much two runs under the same split differ (noise_of()); nothing if too few splits ran twice
/// to know it.
std::optional<double> noise_between_runs(const Trial& trial);

}  // namespace zf
