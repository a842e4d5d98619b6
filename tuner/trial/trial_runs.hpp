// Runs the user's command under one split after the other, round after round.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "plan/plan.hpp"
#include "trial/trial.hpp"

namespace zf {

/// A run of the command that cannot be judged.
class TrialFailure : public Error {
 public:
  TrialFailure(std::string_view what, std::vector<std::string> last_lines)
      : Error(Exit::runtime_error, what), last_lines_(std::move(last_lines)) {}
  /// What the command said last, up to ten lines, each cut at 300 characters.
  const std::vector<std::string>& last_lines() const { return last_lines_; }

 private:
  std::vector<std::string> last_lines_;
};

struct TrialRequest {
  std::vector<std::string> command;
  int trials = 3;             ///< runs under each split
  std::optional<int> warmup;  ///< see warmup_of()
  bool higher_is_better = false;
  Nanoseconds timeout_ns = 3600 * kSecondNs;  ///< of one run
  unsigned seed = 1;                          ///< of the order within a round
  std::function<bool()> stop;  ///< asked all the time: true ends the run under way and the trial
  std::function<void(std::string_view)> on_line;  ///< told every line of the command's output; may be empty
};

/// Told after every run.
struct TrialProgress {
  std::size_t run = 0;  ///< from 1
  std::size_t runs = 0;
  std::string label;
  std::vector<double> values;  ///< of this run
};

struct TrialResult {
  Trial trial;                        ///< not judged yet
  std::vector<TrialSplit> splits;     ///< splits[i] is what trial.candidates[i] ran under
  std::vector<std::string> warnings;  ///< a control that could not run
};

/// Every split once per round, in random order, so that drift of the machine hits all alike. A run is bound
/// as `zf-tune exec` would where the plan has one rank and the command does not call `zf-tune exec` itself;
/// it finds its plan in ZF_PLAN. Unbound, it has ZF_TUNE=off and no ZF_PLAN; a command that cannot run so is
/// warned of and goes on without this control. Throws TrialFailure for a run that fails, is late or prints
/// nothing that matches, Error(runtime_error) when it is stopped within the first round, and as
/// MetricMatches::find().
TrialResult run_trial(const std::vector<TrialSplit>& splits,
                      const std::function<Plan(const TrialSplit&)>& plan_for, const Metric& metric,
                      const TrialRequest& request, const std::function<void(const TrialProgress&)>& progress);

}  // namespace zf
