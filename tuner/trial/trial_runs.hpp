// Runs the user's command under each split in turn, round after round.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "plan/plan.hpp"
#include "trial/one_run.hpp"
#include "trial/trial.hpp"
#include "trial/trial_splits.hpp"

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
  std::vector<std::string> warnings;  ///< a control that could not run, runs that were late
};

/// Runs the command under every split once per round, in random order, so that drift of the machine hits all
/// splits alike (run_once()). A split that cannot win (cannot_win(), looked at after each run and each round)
/// is not repeated; one split always can. Goes on with the runs in the request's file, or says why it does
/// not. A run finds its plan in ZF_PLAN. It is bound as `zf-tune exec` would bind it if the plan has one rank
/// and the command does not call `zf-tune exec` itself: with the framework `native` to the training side,
/// else to the home. The unbound control has ZF_TUNE=off and no ZF_PLAN; if the command cannot run that way,
/// the trial warns and continues without this control. A run that is late counts, with a warning, if it has
/// printed values. Throws TrialFailure for a run that fails or prints nothing that matches,
/// Error(runtime_error) if it is stopped within the first round, and what MetricMatches::find() and TrialFile
/// throw.
TrialResult run_trial(const std::vector<TrialSplit>& splits,
                      const std::function<Plan(const TrialSplit&)>& plan_for, const Metric& metric,
                      const TrialRequest& request, const std::function<void(const TrialProgress&)>& progress);

}  // namespace zf
