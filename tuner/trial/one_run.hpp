// Runs the user's command once and reads the metric from what it prints.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "plan/workload.hpp"
#include "trial/trial.hpp"

namespace zf {

/// How long a first run may go on before the user is told that the metric has matched nothing yet.
inline constexpr Nanoseconds kMetricPatienceNs = 45 * kSecondNs;
/// When the output of a run is looked at first.
inline constexpr Nanoseconds kFirstLookNs = 5 * kSecondNs;

struct TrialRequest {
  std::vector<std::string> command;
  Framework framework = Framework::unknown;  ///< of the plans; it decides how a run is bound
  int trials = 3;                            ///< runs under each split
  std::optional<int> warmup;                 ///< see warmup_of()
  std::optional<int> values;  ///< how many values of a run count, with the warm-up; then the run is ended
  bool higher_is_better = false;
  Nanoseconds timeout_ns = 3600 * kSecondNs;  ///< of one run
  unsigned seed = 1;                          ///< of the order within a round
  std::function<int()> interrupt;  ///< asked ten times a second: the signal that ends run and trial, or 0
  std::function<void(std::string_view)>
      on_line;  ///< called with every line of the command's output; may be empty
  std::function<void(const std::string&)> say;  ///< called with lines for the user: the metric's first value,
                                                ///< a run that was stopped; may be empty
  std::filesystem::path file;                   ///< where the runs are kept; empty: nowhere
  bool fresh = false;                           ///< do not go on with an interrupted trial
  bool run_to_end = false;  ///< let runs that cannot win go on to their end, and repeat them
  Nanoseconds first_look_ns = kFirstLookNs;
  Nanoseconds patience_ns = kMetricPatienceNs;
};

/// Gives a line to the user, if a listener is set.
void say(const TrialRequest& request, const std::string& line);

struct Run {
  std::vector<double> values;  ///< without the warm-up; empty only if it failed or was stopped
  bool stopped = false;        ///< the user stopped it
  bool hopeless = false;       ///< we stopped it, because it could not win
  bool late = false;           ///< we stopped it at the timeout
  Nanoseconds duration_ns = 0;
  std::string failure;                  ///< what went wrong; empty if nothing did
  std::vector<std::string> last_lines;  ///< of its output: at most ten, each cut at 300 characters
};

/// The facts for a look at the output of a run, and its answers.
struct RunWatch {
  bool metric_has_matched = false;                             ///< in an earlier run
  std::function<bool(const std::vector<double>&)> cannot_win;  ///< asked with the values so far, if any
};

/// Runs a command line to its end. Looks at its output after 5, 10, 20, ... seconds (first_look_ns), because
/// each look takes a CPU from the command for a moment, and ends the run if it cannot win, or if it has
/// printed as many values as are asked for. A run that reaches the timeout counts if it has printed values.
/// Throws what MetricMatches::find() throws.
Run run_once(const std::vector<std::string>& words, const Metric& metric, const TrialRequest& request,
             const RunWatch& watch);

}  // namespace zf
