// Runs the user's command under each split in turn, round after round.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "plan/plan.hpp"
#include "trial/trial.hpp"

namespace zf {

/// A run of the command failed or gave no usable values.
class TrialFailure : public Error {
 public:
  TrialFailure(std::string_view what, std::vector<std::string> last_lines)
      : Error(Exit::runtime_error, what), last_lines_(std::move(last_lines)) {}
  /// Returns the last lines of the command's output: at most ten, each cut at 300 characters.
  const std::vector<std::string>& last_lines() const { return last_lines_; }

 private:
  std::vector<std::string> last_lines_;
};

/// How long a first run may go on before the user is told that the metric has matched nothing yet.
inline constexpr Nanoseconds kMetricPatienceNs = 45 * kSecondNs;

struct TrialRequest {
  std::vector<std::string> command;
  int trials = 3;             ///< runs under each split
  std::optional<int> warmup;  ///< see warmup_of()
  bool higher_is_better = false;
  Nanoseconds timeout_ns = 3600 * kSecondNs;  ///< of one run
  unsigned seed = 1;                          ///< of the order within a round
  std::function<bool()> stop;  ///< asked ten times a second; true ends the current run and the trial
  std::function<void(std::string_view)>
      on_line;  ///< called with every line of the command's output; may be empty
  std::function<void(const std::string&)> say;  ///< called with lines for the user: the metric's first value,
                                                ///< a run that was stopped; may be empty
  std::filesystem::path file;                   ///< where the runs are kept; empty: nowhere
  bool fresh = false;                           ///< do not go on with an interrupted trial
  bool run_to_end = false;  ///< let runs that cannot win go on to their end, and repeat them
};

/// The report that the caller gets after every run.
struct TrialProgress {
  std::size_t run = 0;      ///< from 1
  std::size_t runs = 0;     ///< how many there will be; fewer once splits are given up
  Nanoseconds left_ns = 0;  ///< an estimate, from the runs that were made
  std::string label;
  std::vector<double> values;  ///< of this run
};

struct TrialResult {
  Trial trial;                        ///< not judged yet
  std::vector<TrialSplit> splits;     ///< splits[i] is what trial.candidates[i] ran under
  std::vector<std::string> warnings;  ///< a control that could not run
};

/// Runs the command under every split once per round, in random order, so that drift of the machine hits all
/// splits alike. Looks at the output of a run after 5, 10, 20, ... seconds, and ends the run if its split
/// cannot win (cannot_win()). Such a split is not repeated. Goes on with the runs in the request's file. A
/// run finds its plan in ZF_PLAN. It is bound as `zf-tune exec` would bind it if the plan has one rank and
/// the command does not call `zf-tune exec` itself: with the framework `native` to the training side, else to
/// the home. The unbound control has ZF_TUNE=off and no ZF_PLAN; if the command cannot run that way, the
/// trial warns and continues without this control. Throws TrialFailure for a run that fails, is late or
/// prints nothing that matches, Error(runtime_error) if it is stopped within the first round, and what
/// MetricMatches::find() and TrialFile throw.
TrialResult run_trial(const std::vector<TrialSplit>& splits,
                      const std::function<Plan(const TrialSplit&)>& plan_for, const Metric& metric,
                      const TrialRequest& request, const std::function<void(const TrialProgress&)>& progress);

}  // namespace zf
