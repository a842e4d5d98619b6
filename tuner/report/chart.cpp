#include "report/chart.hpp"

#include <algorithm>
#include <cmath>

#include "base/format.hpp"
#include "report/html.hpp"

namespace zf {
namespace {

/// Paths have 1000 units across the page, whatever its width is.
constexpr double kAcross = 1000;
/// The room for the numbers below a chart, in pixels.
constexpr double kBelow = 22;
/// The room for the name of the axis below them.
constexpr double kName = 20;

std::string percent(double x) { return format_text("{:.2f}%", 100 * x); }

}  // namespace

std::vector<double> round_numbers(double low, double high) {
  constexpr double kMost = 5;
  const double least = (high - low) / kMost;
  const double power = std::pow(10, std::floor(std::log10(least)));
  double step = 10 * power;
  for (const double number : {power, 2 * power, 5 * power}) {
    if (number >= least) {
      step = number;
      break;
    }
  }
  std::vector<double> numbers;
  const auto last = static_cast<int>(std::floor(high / step));
  for (auto i = static_cast<int>(std::ceil(low / step)); i <= last; ++i) numbers.push_back(i * step);
  return numbers;
}

double TimeAxis::of(double value) const { return kChartHeight * (high_ - value) / high_; }

std::vector<double> TimeAxis::ticks() const { return round_numbers(0, high_); }

std::string line_through(std::string_view kind, const std::vector<Place>& places) {
  std::string path;
  for (const Place& place : places)
    path += format_text("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", kAcross * place.x, place.y);
  return format_text("<path class=\"{}\" d=\"{}\"/>", kind, path);
}

std::string dots_at(std::string_view kind, const std::vector<Place>& places) {
  std::string path;
  // A line without a length is not drawn everywhere.
  for (const Place& place : places) path += format_text("M{:.1f} {:.1f}h.01", kAcross * place.x, place.y);
  return format_text("<path class=\"{}\" d=\"{}\"/>", kind, path);
}

std::string words_beside(std::string_view kind, Place place, std::string_view words) {
  const bool at_left = place.x > 0.5;
  return format_text("<text class=\"{}\" x=\"{}\" dx=\"{}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>", kind,
                     percent(place.x), at_left ? -8 : 8, place.y, at_left ? "end" : "start",
                     html_text(words));
}

std::string chart_with(std::string_view title, const TimeAxis& axis, std::string_view unit,
                       const BottomAxis& below, std::string_view paths, std::string_view words) {
  std::string grid;
  for (const double tick : axis.ticks()) {
    const double y = axis.of(tick);
    grid += format_text(
        "<line class=\"grid\" x2=\"100%\" y1=\"{0:.1f}\" y2=\"{0:.1f}\"/>"
        "<text class=\"number\" y=\"{1:.1f}\">{2:.4g} {3}</text>",
        y, y - 4, tick, unit);
  }
  std::string labels;
  for (const BottomLabel& label : below.labels) {
    labels += format_text("<text class=\"number\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                          percent(label.x), kChartHeight + kBelow - 5, label.text);
  }
  if (!below.name.empty()) {
    labels += format_text("<text x=\"50%\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                          kChartHeight + kBelow + kName - 5, html_text(below.name));
  }
  return format_text(
      "<svg class=\"chart\" role=\"img\" width=\"100%\" height=\"{}\"><title>{}</title>\n{}\n"
      "<svg width=\"100%\" height=\"{}\" viewBox=\"0 0 {} {}\" "
      "preserveAspectRatio=\"none\">{}</svg>\n{}{}</svg>\n",
      kChartHeight + kBelow + (below.name.empty() ? 0 : kName), html_text(title), grid, kChartHeight, kAcross,
      kChartHeight, paths, words, labels);
}

}  // namespace zf
