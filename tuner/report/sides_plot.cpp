#include "report/sides_plot.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "base/format.hpp"
#include "report/chart.hpp"
#include "report/html.hpp"
#include "report/sides.hpp"
#include "report/time_unit.hpp"

namespace zf {
namespace {

/// Times beyond so many times the longer side of the chosen split are not drawn: small pools would leave no
/// room for the others.
constexpr double kMostTimes = 3;
/// The largest number of labels that fit below a narrow chart.
constexpr std::size_t kMostLabels = 12;

/// Draws the points of both kinds of homes.
class SidesPlot {
 public:
  SidesPlot(const Plan& plan, Sides sides)
      : plan_(plan), sides_(std::move(sides)), sizes_(sizes_of()), unit_(unit_of()), axis_(axis_of()) {}

  bool has_sizes() const { return sizes_.size() > 1; }

  std::string draw() const {
    std::string paths;
    for (const auto* points : {&sides_.divided, &sides_.shared}) {
      const char* const kind = points == &sides_.shared ? "shared " : "";
      paths += side_of(*points, format_text("{}training", kind),
                       [](const SidesPoint& one) { return one.training; });
      paths += side_of(*points, format_text("{}step", kind),
                       [](const SidesPoint& one) { return std::optional(one.step); });
    }
    return format_text(
        "<figure>\n{}{}<figcaption>{}</figcaption>\n</figure>\n", legend(),
        chart_with("Training and optimizer time over the number of pool threads", axis_, unit_.name,
                   {"pool threads per rank", labels()}, paths, chosen_mark() + crossing_mark() + lone_mark()),
        html_text(caption()));
  }

 private:
  template <class Do>
  void for_each_point(Do what) const {
    for (const auto* points : {&sides_.divided, &sides_.shared}) {
      for (const SidesPoint& point : *points) what(point);
    }
  }

  std::vector<int> sizes_of() const {
    std::vector<int> sizes;
    for_each_point([&](const SidesPoint& point) { sizes.push_back(point.pool_threads); });
    std::sort(sizes.begin(), sizes.end());
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    return sizes;
  }

  static double longer_of(const SidesPoint& point) {
    return std::max(point.step.high, point.training ? point.training->high : 0);
  }

  /// Returns the longest time to draw, in nanoseconds.
  double longest() const {
    double all = 0;
    double chosen = 0;
    for_each_point([&](const SidesPoint& point) {
      all = std::max(all, longer_of(point));
      if (point.chosen) chosen = longer_of(point);
    });
    return chosen > 0 ? std::min(all, kMostTimes * chosen) : all;
  }

  TimeUnit unit_of() const { return unit_for(static_cast<Nanoseconds>(longest() / 4)); }
  TimeAxis axis_of() const { return TimeAxis(longest() / unit_.ns); }

  double x_of(int pool_threads) const {
    const auto at = std::lower_bound(sizes_.begin(), sizes_.end(), pool_threads) - sizes_.begin();
    return sizes_.size() < 2 ? 0.5
                             : 0.14 + 0.8 * static_cast<double>(at) / static_cast<double>(sizes_.size() - 1);
  }

  Place place_of(const SidesPoint& point, double ns) const {
    return {x_of(point.pool_threads), axis_.of(ns / unit_.ns)};
  }

  /// Draws one side of the points: whiskers, a line, dots.
  template <class Value>
  std::string side_of(const std::vector<SidesPoint>& points, const std::string& kind, Value value) const {
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

  std::vector<BottomLabel> labels() const {
    const std::size_t every = (sizes_.size() + kMostLabels - 1) / kMostLabels;
    std::vector<BottomLabel> below;
    for (std::size_t i = 0; i < sizes_.size(); i += every)
      below.push_back({x_of(sizes_[i]), std::to_string(sizes_[i])});
    return below;
  }

  /// Marks the pool that was chosen.
  std::string chosen_mark() const {
    std::string text;
    for_each_point([&](const SidesPoint& point) {
      if (!point.chosen) return;
      const double x = x_of(point.pool_threads);
      text += format_text("<line class=\"mark\" x1=\"{0:.2f}%\" x2=\"{0:.2f}%\" y2=\"{1}\"/>", 100 * x,
                          kChartHeight) +
              words_beside("mark", {x, 14}, format_text("this plan: {}", point.pool_threads));
    });
    return text;
  }

  /// Draws a ring where the lines of divided homes cross.
  std::string crossing_mark() const {
    const auto crossing = crossing_of(sides_);
    if (!crossing || plan_.workload.mode == Mode::wait) return "";
    const auto& [fewer, more] = *crossing;
    const double before = fewer.step.median - fewer.training->median;
    const double behind = more.training->median - more.step.median;
    const double part = before / (before + behind);
    const Place from = place_of(fewer, fewer.step.median);
    const Place to = place_of(more, more.step.median);
    const double y = from.y + part * (to.y - from.y);
    if (y < 0) return "";  // above the chart
    return format_text("<circle class=\"crossing\" cx=\"{:.2f}%\" cy=\"{:.1f}\" r=\"10\"/>",
                       100 * (from.x + part * (to.x - from.x)), y);
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
    if (has_training()) text += key("training", training_in_words(plan_.workload));
    text += key("step", "optimizer step");
    if (sides_.shared.size() > 1 && !sides_.divided.empty())
      text += "<span>dashed: homes that both sides share</span>";
    return format_text("<p class=\"legend\">{}</p>\n", text);
  }

  bool has_training() const {
    bool has = false;
    for_each_point([&](const SidesPoint& point) { has = has || point.training; });
    return has;
  }

  std::string caption() const {
    std::string text =
        "Medians over the number of pool threads per rank, with whiskers from the first quartile to "
        "the third. ";
    text += has_training() ? sides_in_words(plan_, sides_) : "No training side was measured.";
    double all = 0;
    for_each_point([&](const SidesPoint& point) { all = std::max(all, longer_of(point)); });
    if (all > longest()) text += " Longer times are above the chart; the table has them.";
    return text;
  }

  const Plan& plan_;
  Sides sides_;
  std::vector<int> sizes_;
  TimeUnit unit_;
  TimeAxis axis_;
};

}  // namespace

std::string sides_plot(const Plan& plan) {
  const SidesPlot plot(plan, sides_of(plan));
  return plot.has_sizes() ? plot.draw() : "";
}

}  // namespace zf
