// Draws both sides of a period over the size of the pool.
#include "report/page_parts.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "base/format.hpp"
#include "report/html.hpp"
#include "report/sides.hpp"
#include "report/time_axis.hpp"

namespace zf {
namespace {

/// Times beyond so many times the longer side of the chosen split are not drawn: small pools would leave no
/// room for the others.
constexpr double kMostTimes = 3;
/// The largest number of labels that fit below a narrow chart.
constexpr std::size_t kMostLabels = 12;
/// Paths have 1000 units across the page, whatever its width is.
constexpr double kAcross = 1000;
/// The room below the chart for its numbers, and with the name of the axis, in pixels.
constexpr double kNumbersBelow = 22;
constexpr double kBelow = 42;

/// A place in the chart.
struct Place {
  double x = 0;  ///< from 0 to 1, from left to right
  double y = 0;  ///< pixels from the top
};

std::string path_of(std::string_view kind, std::string_view path) {
  return format_text("<path class=\"{}\" d=\"{}\"/>", kind, path);
}

/// Returns a path of CSS class `kind` along the places.
std::string line_through(std::string_view kind, const std::vector<Place>& places) {
  std::string path;
  for (const Place& place : places)
    path += format_text("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", kAcross * place.x, place.y);
  return path_of(kind, path);
}

/// Returns a path of CSS class `kind` with a dot at each place. Its line caps are the form of the dots.
std::string dots_at(std::string_view kind, const std::vector<Place>& places) {
  std::string path;
  // A line without a length is not drawn everywhere.
  for (const Place& place : places) path += format_text("M{:.1f} {:.1f}h.01", kAcross * place.x, place.y);
  return path_of(kind, path);
}

/// Returns words of CSS class `kind` to the right of a place in the left half, else to its left.
std::string words_beside(std::string_view kind, Place place, std::string_view words) {
  const bool at_left = place.x > 0.5;
  return format_text("<text class=\"{}\" x=\"{:.2f}%\" dx=\"{}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>",
                     kind, 100 * place.x, at_left ? -8 : 8, place.y, at_left ? "end" : "start", words);
}

std::vector<SidesPoint> points_of(const Sides& sides) {
  std::vector<SidesPoint> points = sides.divided;
  points.insert(points.end(), sides.shared.begin(), sides.shared.end());
  return points;
}

double longer_of(const SidesPoint& point) {
  return std::max(point.step.high, point.training ? point.training->high : 0);
}

/// Returns the longest time of the points.
double longest_of(const std::vector<SidesPoint>& points) {
  double longest = 0;
  for (const SidesPoint& point : points) longest = std::max(longest, longer_of(point));
  return longest;
}

/// Returns the longest time to draw.
double highest_of(const std::vector<SidesPoint>& points) {
  double highest = longest_of(points);
  for (const SidesPoint& point : points) {
    if (point.chosen) highest = std::min(highest, kMostTimes * longer_of(point));
  }
  return highest;
}

/// Draws the points of both kinds of homes.
class SidesPlot {
 public:
  explicit SidesPlot(const Plan& plan)
      : plan_(plan), sides_(sides_of(plan)), points_(points_of(sides_)), axis_(highest_of(points_)) {
    for (const SidesPoint& point : points_) {
      sizes_.push_back(point.pool_threads);
      has_training_ = has_training_ || point.training;
    }
    std::sort(sizes_.begin(), sizes_.end());
    sizes_.erase(std::unique(sizes_.begin(), sizes_.end()), sizes_.end());
  }

  bool has_sizes() const { return sizes_.size() > 1; }

  std::string draw() const {
    return format_text("<figure>\n{}{}<figcaption>{}</figcaption>\n</figure>\n", legend(), chart(),
                       html_text(caption()));
  }

 private:
  double x_of(int pool_threads) const {
    const auto at = std::lower_bound(sizes_.begin(), sizes_.end(), pool_threads) - sizes_.begin();
    return 0.14 + 0.8 * static_cast<double>(at) / static_cast<double>(sizes_.size() - 1);
  }

  Place place_of(const SidesPoint& point, double ns) const {
    return {x_of(point.pool_threads), axis_.of(ns)};
  }

  /// Returns the whole chart, with a title for readers who cannot see it.
  std::string chart() const {
    return format_text(
        "<svg class=\"chart\" role=\"img\" width=\"100%\" height=\"{}\"><title>Training and optimizer time "
        "over "
        "the number of pool threads</title>\n{}\n"
        "<svg width=\"100%\" height=\"{}\" viewBox=\"0 0 {} {}\" "
        "preserveAspectRatio=\"none\">{}</svg>\n{}{}</svg>\n",
        kChartHeight + kBelow, grid(), kChartHeight, kAcross, kChartHeight,
        sides(sides_.divided, "") + sides(sides_.shared, "shared "), chosen_mark() + lone_mark(), labels());
  }

  std::string grid() const {
    std::string text;
    for (const double tick : axis_.ticks()) {
      const double y = axis_.of(tick);
      text += format_text(
          "<line class=\"grid\" x2=\"100%\" y1=\"{0:.1f}\" y2=\"{0:.1f}\"/>"
          "<text class=\"number\" y=\"{1:.1f}\">{2:.4g} {3}</text>",
          y, y - 4, axis_.in_unit(tick), axis_.unit());
    }
    return text;
  }

  /// Returns the numbers below the chart, and under them what they are.
  std::string labels() const {
    const std::size_t every = (sizes_.size() + kMostLabels - 1) / kMostLabels;
    std::string text;
    for (std::size_t i = 0; i < sizes_.size(); i += every) {
      text += format_text("<text class=\"number\" x=\"{:.2f}%\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                          100 * x_of(sizes_[i]), kChartHeight + kNumbersBelow - 5, sizes_[i]);
    }
    return text + format_text("<text x=\"50%\" y=\"{}\" text-anchor=\"middle\">pool threads per rank</text>",
                              kChartHeight + kBelow - 5);
  }

  std::string sides(const std::vector<SidesPoint>& points, const std::string& kind) const {
    return side(points, kind + "training", [](const SidesPoint& one) { return one.training; }) +
           side(points, kind + "step", [](const SidesPoint& one) { return std::optional(one.step); });
  }

  /// Draws one side of the points: whiskers, a line, dots.
  template <class Value>
  std::string side(const std::vector<SidesPoint>& points, const std::string& kind, Value value) const {
    std::vector<Place> places;
    std::string whiskers;
    for (const SidesPoint& point : points) {
      const auto time = value(point);
      if (!time) continue;
      places.push_back(place_of(point, time->median));
      whiskers += line_through(kind + " whisker", {place_of(point, time->low), place_of(point, time->high)});
    }
    if (places.empty()) return "";
    return whiskers + line_through(kind + " line", places) + dots_at(kind + " dots", places);
  }

  /// Marks the pool that was chosen.
  std::string chosen_mark() const {
    const auto chosen =
        std::find_if(points_.begin(), points_.end(), [](const SidesPoint& point) { return point.chosen; });
    if (chosen == points_.end()) return "";
    const double x = x_of(chosen->pool_threads);
    return format_text("<line class=\"mark\" x1=\"{0:.2f}%\" x2=\"{0:.2f}%\" y2=\"{1}\"/>", 100 * x,
                       kChartHeight) +
           words_beside("mark", {x, 14}, format_text("this plan: {}", chosen->pool_threads));
  }

  /// Names a lone point of shared homes, which no dashed line tells from those of divided homes.
  std::string lone_mark() const {
    if (sides_.shared.size() != 1 || sides_.divided.empty()) return "";
    const SidesPoint& lone = sides_.shared.front();
    const Place place = place_of(lone, lone.step.median);
    return words_beside("lone", {place.x, place.y + 4}, "shared home");
  }

  std::string legend() const {
    const auto key = [](std::string_view kind, std::string_view words) {
      return format_text(
          "<span><svg class=\"chart key\" width=\"30\" height=\"12\" aria-hidden=\"true\">"
          "<path class=\"{0} line\" d=\"M0 6h30\"/><path class=\"{0} dots\" d=\"M15 6h.01\"/></svg> "
          "{1}</span>",
          kind, words);
    };
    std::string text;
    if (has_training_) text += key("training", training_in_words(plan_.workload));
    text += key("step", "optimizer step");
    if (sides_.shared.size() > 1 && !sides_.divided.empty())
      text += "<span>dashed: homes that both sides share</span>";
    return format_text("<p class=\"legend\">{}</p>\n", text);
  }

  std::string caption() const {
    std::string text =
        "Medians over the number of pool threads per rank, with whiskers from the first quartile to "
        "the third. ";
    text += has_training_ ? sides_in_words(plan_, sides_) : "No training side was measured.";
    if (longest_of(points_) > highest_of(points_))
      text += " Longer times are above the chart; the table has them.";
    return text;
  }

  const Plan& plan_;
  Sides sides_;
  std::vector<SidesPoint> points_;  ///< of both kinds of homes
  TimeAxis axis_;
  std::vector<int> sizes_;  ///< of pools, ascending
  bool has_training_ = false;
};

}  // namespace

std::string sides_plot(const Plan& plan) {
  const SidesPlot plot(plan);
  return plot.has_sizes() ? plot.draw() : "";
}

}  // namespace zf
