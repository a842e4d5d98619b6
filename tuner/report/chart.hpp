// The parts of a chart in SVG that is as wide as the page: lines and dots that keep their form, and words
// that keep their size. Pure.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace zf {

/// The height of the part of a chart that has lines, in pixels.
inline constexpr double kChartHeight = 240;

/// A place in a chart.
struct Place {
  double x = 0;  ///< from 0 to 1, from left to right
  double y = 0;  ///< pixels from the top
};

/// A vertical axis of times, as numbers of one unit. It begins at 0.
class TimeAxis {
 public:
  /// Has room above the highest value.
  explicit TimeAxis(double highest) : high_(1.08 * highest) {}

  /// Returns pixels from the top; above the chart and below it, too.
  double of(double value) const;
  /// Returns round numbers within the axis, ascending: two to six of them.
  std::vector<double> ticks() const;

 private:
  double high_;
};

/// Returns round numbers from `low` to `high`: multiples of 1, 2 or 5 times a power of ten, at most six.
std::vector<double> round_numbers(double low, double high);

/// Returns a path of CSS class `kind` along the places.
std::string line_through(std::string_view kind, const std::vector<Place>& places);
/// Returns a path of CSS class `kind` with a dot at each place. Its line caps are the form of the dots.
std::string dots_at(std::string_view kind, const std::vector<Place>& places);
/// Returns words of CSS class `kind` at a place, to its right if that is left of the middle, else to its
/// left.
std::string words_beside(std::string_view kind, Place place, std::string_view words);

/// A number below the chart.
struct BottomLabel {
  double x = 0;  ///< as Place::x
  std::string text;
};

/// What stands below the chart: numbers, and under them what they are.
struct BottomAxis {
  std::string name;
  std::vector<BottomLabel> labels;
};

/// Returns the whole chart: `title` for readers who cannot see it, the axis with its unit, `paths` (of the
/// first two functions above), and `words` over them.
std::string chart_with(std::string_view title, const TimeAxis& axis, std::string_view unit,
                       const BottomAxis& below, std::string_view paths, std::string_view words);

}  // namespace zf
