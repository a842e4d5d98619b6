// Finds a metric in the output of a run. No expression and no line can hang or crash this process.
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

/// The largest part of a run's output that is kept and searched, in bytes.
inline constexpr std::size_t kMaxKeptBytes = std::size_t{256} << 20;

/// Keeps the lines of a run while it runs, because matching would take a CPU from it. Searches them when it
/// is asked to, in child processes, because std::regex recurses along a line and may try exponentially many
/// matches.
class MetricMatches {
 public:
  /// Makes an empty list of lines. `patience` is how long the search of 64 KiB of output may take.
  explicit MetricMatches(const Metric& metric, std::chrono::milliseconds patience = std::chrono::seconds(10));

  /// Keeps the first kMetricColumns of a line. Drops the line once kMaxKeptBytes are kept.
  void add(std::string_view line);
  /// Searches the lines that were added since the last call. Stops if `stop`, which is asked every 64 KiB,
  /// returns true. Throws Error(usage) that names --metric if a child did not end in time, and
  /// Error(runtime_error) if a child died.
  void find(const std::function<bool()>& stop);

  const std::vector<double>& values() const { return values_; }
  std::size_t line_count() const { return line_count_; }
  /// Returns the first match that is not a positive number, if there was one.
  const std::optional<std::string>& odd() const { return odd_; }

 private:
  void find_in(std::string_view lines, const std::function<bool()>& stop);

  const Metric& metric_;
  std::chrono::milliseconds patience_;
  std::string lines_;         ///< each ends in a newline
  std::size_t searched_ = 0;  ///< the first so many bytes of lines_
  std::size_t line_count_ = 0;
  std::vector<double> values_;
  std::optional<std::string> odd_;
};

}  // namespace zf
