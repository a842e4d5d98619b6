// The job itself as the judge: which splits to try, what its output says, which one won. Pure.
#pragma once

#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "homes/homes.hpp"
#include "homes/split.hpp"
#include "plan/plan.hpp"

namespace zf {

/// A split for the job to run under.
struct TrialSplit {
  Split split;
  int evidence_id = -1;  ///< CandidateEvidence::id; -1: the sweep did not measure it
};

/// The `best` eligible candidates of the sweep, fastest first, and the controls: half and half, two reserved,
/// unbound. Each kind of binding once. Homes that are shared leave one split.
std::vector<TrialSplit> trial_splits(const Evidence& evidence, const std::vector<Home>& homes, int best);

/// Of a line of the job's output, as much as a Metric looks at.
inline constexpr std::size_t kMetricColumns = 4096;

/// A regular expression that finds a number in a line of the job's output.
class Metric {
 public:
  /// Throws Error(usage) that names --metric for what is no ECMAScript expression, has several groups or is
  /// longer than 1000 characters.
  explicit Metric(std::string pattern);

  /// What the first group (without one: the whole match) is, in the first kMetricColumns of the line.
  /// Absent: no match. There are expressions that take for ever on some lines: see MetricMatches.
  std::optional<std::string> match_in(std::string_view line) const;
  const std::string& pattern() const { return pattern_; }

 private:
  std::string pattern_;
  std::regex regex_;
};

/// The positive number that `text` is; absent: it is none.
std::optional<double> metric_value(std::string_view text);

/// Values at the beginning of a run that are no steady state: `asked`, else a fifth of them, at least one
/// where there are two. Never all of them: run_trial() refuses an `asked` that would.
std::size_t warmup_of(std::size_t values, std::optional<int> asked);

/// Fills in the medians and the winner, as choose() does for a sweep, with runs for rounds: of all splits
/// that tie with the best (is_tie() by the larger of kDefaultTie and noise_of()) the one with the smallest
/// pool; never unbound. Where the noise is above kDefaultTie and nothing beats half and half by more, that
/// one. Returns why, in words. Precondition: every candidate has a run, one of them is eligible.
std::string judge(Trial& trial);

/// What two runs under the same split disagree by (noise_between_blocks()); 0 where no two ran twice.
double noise_between_runs(const Trial& trial);

}  // namespace zf
