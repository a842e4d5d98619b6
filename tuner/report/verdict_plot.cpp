// Draws how the other splits compare with the plan's.
#include "report/page_parts.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

#include "base/format.hpp"
#include "base/text.hpp"
#include "report/comparisons.hpp"
#include "report/html.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

/// The largest number of rows of splits that are no controls: so many fit on one screen.
constexpr std::size_t kMostRows = 8;

/// How far a plot reaches to both sides of the plan, relative, and its ticks.
struct Reach {
  double limit;
  double tick;
};
constexpr Reach kReaches[] = {{0.06, 0.02}, {0.1, 0.05}, {0.2, 0.1}, {0.3, 0.1}};
constexpr Reach kWidest{1, 0.5};

struct Rows {
  std::vector<OtherSplit> splits;  ///< fastest first; all differences are known
  std::size_t left_out = 0;
};

Rows rows_of(const Plan& plan) {
  Rows rows;
  std::vector<OtherSplit> splits = splits_beside_plan(plan);
  std::ranges::stable_sort(splits, {}, [](const auto& one) { return one.comparison.longer.estimate; });
  std::size_t no_controls = 0;
  for (OtherSplit& split : splits) {
    if (!split.comparison.longer.is_known()) continue;
    if (split.control == Control::none && no_controls++ == kMostRows) {
      --no_controls;
      ++rows.left_out;
      continue;
    }
    rows.splits.push_back(std::move(split));
  }
  return rows;
}

/// Returns the first reach that holds all intervals, or the last one: then some go on beyond the plot.
Reach reach_of(const std::vector<OtherSplit>& splits) {
  const double accuracy = splits.front().comparison.accuracy;
  double most = 0;
  for (const OtherSplit& split : splits) {
    const Difference shown = shown_difference(split.comparison);
    most = std::max({most, -shown.low, shown.high});
  }
  for (const Reach& reach : kReaches) {
    const bool is_last = &reach == std::end(kReaches) - 1;
    if (1.5 * accuracy <= reach.limit && (most <= reach.limit || is_last)) return reach;
  }
  return kWidest;
}

/// The places of values across a plot, in per cent of its width. The plan is in the middle.
class Places {
 public:
  explicit Places(Reach reach) : reach_(reach) {}
  double of(double relative) const { return 50 + 48 * std::clamp(relative / reach_.limit, -1.0, 1.0); }
  bool holds(double relative) const { return std::abs(relative) <= reach_.limit; }
  const Reach& reach() const { return reach_; }

 private:
  Reach reach_;
};

std::string print_tick(double relative) {
  return relative == 0 ? "0" : format_text("{:+.0f} %", 100 * relative);
}

/// Returns the band of ties and the line of the plan.
std::string backdrop(double accuracy, const Places& places) {
  const double left = places.of(-accuracy);
  return format_text(
      "<rect class=\"tie-band\" x=\"{:.2f}%\" width=\"{:.2f}%\" height=\"100%\"/>"
      "<line class=\"zero\" x1=\"50%\" x2=\"50%\" y2=\"100%\"/>",
      left, places.of(accuracy) - left);
}

/// Returns a shape that keeps its form: its middle is at this place.
std::string shape_at(double place, std::string_view path) {
  return format_text("<svg x=\"{:.2f}%\" y=\"50%\" overflow=\"visible\"><path d=\"{}\"/></svg>", place, path);
}

std::string interval(const Comparison& comparison, const Places& places) {
  const Difference shown = shown_difference(comparison);
  std::string text =
      format_text("<line class=\"interval\" x1=\"{:.2f}%\" x2=\"{:.2f}%\" y1=\"50%\" y2=\"50%\"/>",
                  places.of(shown.low), places.of(shown.high));
  for (const double end : {shown.low, shown.high}) {
    if (places.holds(end))
      text += format_text("<line x1=\"{0:.2f}%\" x2=\"{0:.2f}%\" y1=\"30%\" y2=\"70%\"/>", places.of(end));
  }
  const double limit = places.reach().limit;
  if (shown.low < -limit) text += shape_at(places.of(shown.low), "M2-5v10l-8-5z");
  if (shown.high > limit) text += shape_at(places.of(shown.high), "M-2-5v10l8-5z");
  if (places.holds(shown.estimate))
    text += format_text("<circle cx=\"{:.2f}%\" cy=\"50%\" r=\"4.5\"/>", places.of(shown.estimate));
  return text;
}

std::string row_of(const OtherSplit& split, const Places& places) {
  const Comparison& comparison = split.comparison;
  const bool checked = comparison.basis == Basis::checked;
  const Verdict verdict = verdict_of(comparison).value_or(Verdict::unclear);
  return format_text(
      "<tr><th scope=\"row\">{}</th><td class=\"plot\"><svg role=\"img\" class=\"{}{}\"><title>{}.</title>"
      "{}{}</svg></td><td class=\"figures\">{}</td><td class=\"verdict\">{}{}</td></tr>\n",
      html_text(split.label), verdict == Verdict::tie ? "tie" : name_of(verdict), checked ? "" : " searched",
      html_text(comparison_in_words(comparison)), backdrop(comparison.accuracy, places),
      interval(comparison, places), print_figures(comparison), name_of(verdict),
      checked ? "" : ", in the search");
}

/// Returns the row of the plan's own split, with the median that its job printed, or its period.
std::string row_of_plan(const Plan& plan, double accuracy, const Places& places) {
  std::string label, takes;
  if (plan.trial) {
    const TrialCandidate& winner = plan.trial->candidates[static_cast<std::size_t>(plan.trial->winner)];
    label = winner.label;
    takes = format_text("median {:.4g}", winner.median);
  } else {
    if (const CandidateEvidence* const chosen = chosen_of(plan)) label = chosen->label;
    const auto checked = checked_period_ns(plan.evidence, plan.workload, plan.choice.candidate);
    takes = print_duration(checked.value_or(plan.choice.period_ns_median)) + " per period";
  }
  return format_text(
      "<tr class=\"chosen\"><th scope=\"row\">{}</th><td class=\"plot\"><svg role=\"img\" class=\"plan\">"
      "<title>This plan</title>{}{}</svg></td><td class=\"figures\">{}</td>"
      "<td class=\"verdict\">this plan</td></tr>\n",
      html_text(label), backdrop(accuracy, places), shape_at(50, "M0-7l7 7l-7 7l-7-7z"), takes);
}

/// Returns a row with nothing but words or numbers along the plot.
std::string axis(std::string_view texts) {
  return format_text(
      "<tr><td></td><td class=\"plot\"><svg aria-hidden=\"true\">{}</svg></td><td></td><td></td></tr>",
      texts);
}

std::string words_at(std::string_view place, const char* anchor, std::string_view words) {
  return format_text("<text x=\"{}\" y=\"50%\" text-anchor=\"{}\">{}</text>", place, anchor, words);
}

std::string ticks(const Places& places) {
  const auto [limit, tick] = places.reach();
  const auto count = static_cast<int>(std::lround(limit / tick));
  std::string text;
  for (int i = -count; i <= count; ++i) {
    const char* const anchor = i == -count ? "start" : i == count ? "end" : "middle";
    const double place = i == -count ? 0 : i == count ? 100 : places.of(i * tick);
    text += words_at(format_text("{:.2f}%", place), anchor, print_tick(i * tick));
  }
  return text;
}

/// Returns what the controls among the rows are, for a reader who does not know their names.
std::string controls_in_words(const std::vector<OtherSplit>& splits) {
  std::string text;
  for (const auto& [control, words] :
       {std::pair(Control::unbound, "Unbound: both sides on all CPUs, as without a plan."),
        std::pair(Control::shared, "Shared home: both sides on all cores of a rank."),
        std::pair(Control::half, "Half and half: ZenFlow's default."),
        std::pair(Control::eighty_twenty, "80/20: SuperOffload's default, 80 % for the optimizer.")}) {
    if (std::ranges::find(splits, control, &OtherSplit::control) != splits.end())
      text += format_text(" {}", words);
  }
  return text;
}

std::string caption(const Plan& plan, const Rows& rows, const Places& places) {
  const Comparison& first = rows.splits.front().comparison;
  std::string text = format_text(
      "By how much {} differs from that under this plan, with the 95 % interval; {} is faster. "
      "An interval within the shaded ±{:.1f} % is a tie.",
      !plan.trial      ? "the time from one optimizer step to the next"
      : first.of_rates ? "the throughput of the job"
                       : "the time that the job printed",
      first.of_rates ? "plus" : "minus", 100 * first.accuracy);
  const auto was_searched = [](const OtherSplit& one) { return one.comparison.basis != Basis::checked; };
  if (std::ranges::any_of(rows.splits, was_searched))
    text += " Hollow: as seen in the search, which favours its choice, and not checked after it.";
  const auto goes_on = [&](const OtherSplit& one) {
    const Difference shown = shown_difference(one.comparison);
    return !places.holds(shown.low) || !places.holds(shown.high);
  };
  if (std::ranges::any_of(rows.splits, goes_on))
    text += " An arrow marks an interval that goes on beyond the plot.";
  if (rows.left_out > 0) text += format_text(" The table of all splits also has {} more.", rows.left_out);
  return text + controls_in_words(rows.splits);
}

}  // namespace

std::string verdict_plot(const Plan& plan) {
  const Rows rows = rows_of(plan);
  if (rows.splits.empty()) return "";
  const Comparison& first = rows.splits.front().comparison;
  const Places places(reach_of(rows.splits));
  std::string body;
  bool has_plan = false;
  const auto add_plan = [&] {
    if (!std::exchange(has_plan, true)) body += row_of_plan(plan, first.accuracy, places);
  };
  for (const OtherSplit& split : rows.splits) {
    if (split.comparison.longer.estimate >= 0) add_plan();
    body += row_of(split, places);
  }
  add_plan();
  const char* const left = first.of_rates ? "← slower" : "← faster";
  const char* const right = first.of_rates ? "faster →" : "slower →";
  return format_text(
      "<figure id=\"verdicts\">\n<table class=\"verdicts\"><thead>{}</thead>\n<tbody>\n{}</tbody>\n"
      "<tfoot>{}</tfoot></table>\n<figcaption>{}</figcaption>\n</figure>\n",
      axis(words_at("0", "start", left) + words_at("100%", "end", right)), body, axis(ticks(places)),
      html_text(caption(plan, rows, places)));
}

}  // namespace zf
