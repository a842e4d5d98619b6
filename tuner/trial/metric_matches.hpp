// Holds a metric against the output of a run, where no expression and no line can do harm.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trial/trial.hpp"

namespace zf {

/// Of a run's output, as much as is kept to be looked at.
inline constexpr std::size_t kMaxKeptBytes = std::size_t{256} << 20;

/// Keeps the lines of a run while it runs (a match then would take a CPU from it), and looks at them when it
/// has ended, in child processes: std::regex follows a line on the stack and may try every way to match it.
class MetricMatches {
 public:
  /// `patience`: for 64 KiB of output.
  explicit MetricMatches(const Metric& metric, std::chrono::milliseconds patience = std::chrono::seconds(10));

  /// Its first kMetricColumns. Lines beyond kMaxKeptBytes are not looked at.
  void add(std::string_view line);
  /// Looks at all lines, until `stop` says so, which is asked every 64 KiB. Throws Error(usage) that names
  /// --metric where a child did not come to an end in time, Error(runtime_error) where it died.
  void find(const std::function<bool()>& stop);

  const std::vector<double>& values() const { return values_; }
  /// The first match that was no positive number; absent: there was none.
  const std::optional<std::string>& odd() const { return odd_; }

 private:
  void find_in(std::string_view lines, const std::function<bool()>& stop);

  const Metric& metric_;
  std::chrono::milliseconds patience_;
  std::string lines_;  ///< each with its end
  std::vector<double> values_;
  std::optional<std::string> odd_;
};

}  // namespace zf
