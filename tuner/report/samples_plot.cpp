#include "report/samples_plot.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/format.hpp"
#include "base/text.hpp"
#include "plan/period.hpp"
#include "report/chart.hpp"
#include "report/html.hpp"
#include "report/time_unit.hpp"
#include "search/comparisons.hpp"
#include "search/decision.hpp"
#include "search/period_levels.hpp"

namespace zf {
namespace {

struct Series {
  const char* kind;   ///< its CSS class
  const char* words;  ///< in the legend
  std::vector<Place> places;
};

std::vector<double> periods_of(const Plan& plan) {
  const Schedule schedule = schedule_of(plan.workload, plan.evidence.scale);
  std::vector<double> periods;
  // A period of nothing, which no measurement makes, has no place on a logarithmic axis.
  for (const Sample& sample : plan.evidence.samples)
    periods.push_back(std::max(1.0, period_ns(sample.times, schedule)));
  return periods;
}

double x_of(double index, std::size_t count) { return 0.12 + 0.86 * index / static_cast<double>(count - 1); }

/// Returns the position of the first sample that came after the choice; nothing if there is none.
std::optional<std::size_t> choice_at(const Evidence& evidence) {
  const auto& samples = evidence.samples;
  const auto after = std::find_if(samples.begin(), samples.end(),
                                  [&](const Sample& sample) { return came_after_choice(evidence, sample); });
  if (after == samples.end()) return std::nullopt;
  return static_cast<std::size_t>(after - samples.begin());
}

std::string choice_mark(const Evidence& evidence) {
  const auto at = choice_at(evidence);
  if (!at) return "";
  const double x = x_of(static_cast<double>(*at) - 0.5, evidence.samples.size());
  return format_text("<line class=\"mark\" x1=\"{0:.2f}%\" x2=\"{0:.2f}%\" y2=\"{1}\"/>", 100 * x,
                     kChartHeight) +
         words_beside("mark", {x, 14}, "the choice");
}

std::string legend(const std::vector<Series>& series) {
  std::string text;
  for (const Series& one : series) {
    if (one.places.empty()) continue;
    text += format_text(
        "<span><svg class=\"chart key\" width=\"12\" height=\"12\" aria-hidden=\"true\">"
        "<path class=\"{}\" d=\"M6 6h.01\"/></svg> {}</span>",
        one.kind, one.words);
  }
  return format_text("<p class=\"legend\">{}</p>\n", text);
}

}  // namespace

std::string samples_plot(const Plan& plan) {
  const Evidence& evidence = plan.evidence;
  const std::vector<double> periods = periods_of(plan);
  if (periods.size() < 2) return "";
  const auto [lowest, highest] = std::minmax_element(periods.begin(), periods.end());
  const TimeUnit unit = unit_for(static_cast<Nanoseconds>(*lowest));
  const TimeAxis axis(TimeAxis::Scale::logarithmic, *lowest / unit.ns, *highest / unit.ns);
  const CandidateEvidence* unbound = control_of(evidence, Control::unbound);
  std::vector<Series> series = {
      {"other dots", "other splits", {}}, {"unbound dots", "unbound", {}}, {"plan dots", "this plan", {}}};
  for (std::size_t i = 0; i < periods.size(); ++i) {
    const int id = evidence.samples[i].candidate;
    const std::size_t which = id == plan.choice.candidate               ? 2
                              : unbound != nullptr && id == unbound->id ? 1
                                                                        : 0;
    series[which].places.push_back(
        {x_of(static_cast<double>(i), periods.size()), axis.of(periods[i] / unit.ns)});
  }
  std::string paths;
  for (const Series& one : series) {
    if (!one.places.empty()) paths += dots_at(one.kind, one.places);
  }
  const std::string caption = format_text(
      "{} of {}, in the order in which they were measured, from left to right, on a logarithmic axis.{}",
      print_count(periods.size(), "period"), print_count(evidence.candidates.size(), "split"),
      was_checked(plan) ? " Those to the right of the line check the choice." : "");
  return format_text("<figure>\n{}{}<figcaption>{}</figcaption>\n</figure>\n", legend(series),
                     chart_with("Every measured period in the order of time", axis, unit.name, {}, paths,
                                was_checked(plan) ? choice_mark(evidence) : ""),
                     caption);
}

}  // namespace zf
