// Holds a metric against the output of a run, where no expression and no line can do harm.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tuner/trial.hpp"

namespace zf {

/// Lines are collected, and matched many at a time by a child process: std::regex follows a line on the stack
/// and may try every way to match it, and a match beside the run would take a CPU from it.
class MetricMatches {
 public:
  /// `patience`: for one child, which has 8 MiB of output at the most.
  explicit MetricMatches(const Metric& metric, std::chrono::milliseconds patience = std::chrono::seconds(20));

  /// Looks at its first kMetricColumns. Throws as finish(), where much has been collected.
  void add(std::string_view line);
  /// What is left. Throws Error(usage) that names --metric where a child did not come to an end.
  void finish();

  const std::vector<double>& values() const { return values_; }
  /// The first match that was no positive number; absent: there was none.
  const std::optional<std::string>& odd() const { return odd_; }

 private:
  const Metric& metric_;
  std::chrono::milliseconds patience_;
  std::string lines_;  ///< not looked at yet, each with its end
  std::vector<double> values_;
  std::optional<std::string> odd_;
};

}  // namespace zf
