// The vertical axis of a chart of times. Pure.
#pragma once

#include <vector>

namespace zf {

/// The height of the part of a chart that has lines, in pixels.
inline constexpr double kChartHeight = 240;

/// Returns round numbers from `low` to `high`: multiples of 1, 2 or 5 times a power of ten, at most six.
std::vector<double> round_numbers(double low, double high);

/// An axis of times that begins at 0. Times are in nanoseconds; its labels are numbers of one unit.
class TimeAxis {
 public:
  /// Has room above the longest time.
  explicit TimeAxis(double longest_ns);

  /// Returns pixels from the top; above the chart and below it, too.
  double of(double ns) const { return kChartHeight * (high_ - ns) / high_; }
  /// Returns the times that get a label, ascending: two to six.
  std::vector<double> ticks() const;
  /// Returns the name of the unit: "ms".
  const char* unit() const { return unit_; }
  /// Returns a time in that unit.
  double in_unit(double ns) const { return ns / unit_ns_; }

 private:
  double high_;
  const char* unit_ = "ns";
  double unit_ns_ = 1;
};

}  // namespace zf
