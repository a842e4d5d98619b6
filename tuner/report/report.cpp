#include "report/report.hpp"

#include <algorithm>
#include <set>

#include "base/format.hpp"
#include "base/text.hpp"
#include "plan/period.hpp"
#include "report/chart_data.hpp"
#include "report/embedded.hpp"
#include "report/explain.hpp"
#include "report/explain_homes.hpp"
#include "report/headline.hpp"
#include "report/heat_map.hpp"
#include "report/html.hpp"
#include "report/machine_drawing.hpp"
#include "search/comparisons.hpp"
#include "search/decision.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

/// Makes the browser refuse to load anything from anywhere.
constexpr const char* kPolicy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";

constexpr const char* kHeatNote =
    "A stronger colour means a shorter period. Periods of at least 1.5 times the shortest one have no "
    "colour. The chosen split is framed. Empty cells were not measured.";

constexpr const char* kBandwidthCaption =
    "The points show our optimizer step while training runs beside it. The line is the roofline: a plain "
    "loop with Adam's mix of reads and writes, alone on the same cores. Whiskers reach from the first "
    "quartile to the third.";

bool is_simulated(const Plan& plan) { return plan.evidence.isa == kSimulated; }

/// Returns whether at least one eligible split was measured.
bool is_measured(const Plan& plan) {
  const auto& candidates = plan.evidence.candidates;
  return std::any_of(candidates.begin(), candidates.end(), is_eligible);
}

std::string section(std::string_view id, std::string_view title, std::string_view content) {
  return format_text("<section id=\"{}\">\n<h2>{}</h2>\n{}</section>\n\n", id, title, content);
}

std::string paragraph(std::string_view kind, std::string_view text) {
  return format_text("<p class=\"{}\">{}</p>\n", kind, html_text(text));
}

std::string title(const Plan& plan) {
  return html_text(is_simulated(plan) ? format_text("CPU plan for {}, simulated", plan.machine.model)
                                      : format_text("CPU plan for {}", plan.made.host));
}

std::string header(const Plan& plan) {
  std::string badge;
  if (is_simulated(plan)) {
    badge = paragraph("badge", "Simulated: no figure on this page was measured on a real machine.");
  } else if (!is_measured(plan) && !plan.trial) {
    badge = paragraph("badge", "Nothing was measured.");
  }
  const std::string& model = plan.machine.model;
  return format_text(
      "<header>\n<h1>{}</h1>\n{}{}</header>\n\n", title(plan),
      paragraph("made", format_text("{} · made by {} on {}, {}", model.empty() ? "unknown CPU" : model,
                                    plan.made.by, plan.made.host, plan.made.at)),
      badge);
}

std::string figure_list(const Plan& plan) {
  std::string items;
  for (const KeyFigure& figure : figures_of(plan)) {
    items += format_text("<div><dt>{}</dt><dd>{}</dd><dd class=\"note\">{}</dd></div>\n",
                         html_text(figure.name), html_text(figure.value), html_text(figure.note));
  }
  return items.empty() ? "" : format_text("<dl class=\"figures\">\n{}</dl>\n", items);
}

std::string decision_section(const Plan& plan) {
  std::string text = paragraph("headline", headline_of(plan)) +
                     paragraph("why", format_text("Why: {}.", plan.choice.reason)) + figure_list(plan) +
                     html_table(bindings_table(plan));
  for (const std::string& note : plan.allocation.notes)
    text += paragraph("note", format_text("Note: {}.", note));
  for (const std::string& warning : plan.warnings) {
    text += paragraph("warning", format_text("Warning: {}.", warning));
  }
  return section("decision", "Decision", text);
}

/// Returns an empty canvas, in which page.js draws the chart.
std::string chart(std::string_view id, std::string_view in_words, std::string_view caption) {
  return format_text(
      "<figure>\n<div class=\"chart\" id=\"{}\"><canvas role=\"img\" aria-label=\"{}\"></canvas></div>\n"
      "<figcaption>{}</figcaption>\n</figure>\n",
      id, in_words, caption);
}

/// Returns how long a period lasts by the two bars of a split.
std::string period_in_words(Mode mode) {
  switch (mode) {
    case Mode::overlap:
      return "A period lasts as long as the longer of its two bars.";
    case Mode::backward:
      return "The step hides behind the backward of the last training step, and what is longer adds to "
             "the period.";
    case Mode::exact:
      return "The step hides behind a forward, and what is longer adds to the period.";
    case Mode::wait:
      break;
  }
  return "A period lasts as long as both bars together, since training waits for the step.";
}

/// Returns " The copy of the parameters adds 5.3 ms to each."; empty if nothing is copied.
std::string copy_in_words(const Plan& plan) {
  const Nanoseconds copy = schedule_of(plan.workload, plan.evidence.scale).parameters_ns;
  return copy == 0 ? "" : format_text(" The copy of the parameters adds {} to each.", print_duration(copy));
}

std::string bars_caption(const Plan& plan) {
  const std::size_t shown = bars_shown(plan);
  const std::size_t all = plan.evidence.candidates.size();
  return format_text(
      "Bars are medians, and whiskers reach from the first quartile to the third. "
      "The shortest period is on top. {}{}",
      period_in_words(plan.workload.mode) + copy_in_words(plan),
      shown == all ? "" : format_text(" {} of {} candidates are shown.", shown, all));
}

std::string headroom_section(const Plan& plan) {
  if (!plan.choice.headroom) return "";
  return section(
      "headroom", "If the job differs from the workload",
      chart("headroom-chart", "Loss of the plan if training is faster or the step longer than measured",
            format_text("What the plan loses against the best measured split if training is faster, or the "
                        "step longer, by a factor. It stays within 5 % until {}.",
                        headroom_in_words(*plan.choice.headroom))));
}

std::string evidence_sections(const Plan& plan) {
  if (!is_measured(plan)) return "";
  return section("candidates", "Candidates",
                 paragraph("how", format_text("{}.", measured_in_words(plan))) +
                     html_table(evidence_table(plan)) +
                     (was_checked(plan) ? paragraph("note", format_text("{}.", sign_in_words(plan))) : "")) +
         section("sides", "Both sides of every split",
                 chart("sides-chart", "Training and optimizer time of each candidate, as in the table above",
                       bars_caption(plan))) +
         headroom_section(plan) +
         section("heat", "Periods over reserved cores and pool",
                 heat_map(plan) + paragraph("note", kHeatNote)) +
         section(
             "bandwidth", "Memory bandwidth",
             chart("bandwidth-chart", "Bandwidth of our optimizer step and of the roofline over pool threads",
                   kBandwidthCaption));
}

std::string trial_section(const Plan& plan) {
  if (!plan.trial) return "";
  return section("trial", "The job itself",
                 paragraph("how", format_text("What {} printed where \"{}\" matches:", plan.trial->command,
                                              plan.trial->metric)) +
                     html_table(trial_table(*plan.trial)) +
                     paragraph("note", format_text("{}.", sign_in_words(plan))));
}

/// Returns why each rank has its cores; empty if the machine is not known.
std::string homes_section(const Plan& plan, const Topology* topology) {
  if (topology == nullptr) return "";
  std::string text;
  for (const HomesPart& part : parts_of_homes(plan, *topology))
    text += paragraph("how", part.words) + html_table(part.table);
  return section("homes", "Why these cores", text);
}

std::string machine_section(const Plan& plan, const Topology* topology) {
  if (topology != nullptr) return section("machine", "Machine", machine_drawing(plan, *topology));
  return section(
      "machine", "Machine",
      paragraph(
          "note",
          "This page was not made on a machine of the plan's class: the NUMA nodes and caches are not known "
          "here.") +
          machine_drawing(plan, bare_topology(plan)));
}

std::string provenance_section(const Plan& plan) {
  std::vector<Fact> facts = facts_of(plan);
  facts.push_back({"Command", plan.made.command});
  if (is_measured(plan)) {
    const Evidence& evidence = plan.evidence;
    facts.push_back(
        {"Samples",
         format_text("{} of {}, over {:.3g} of the model", print_count(evidence.samples.size(), "period"),
                     print_count(evidence.candidates.size(), "candidate"), evidence.scale)});
    const std::string reached =
        evidence.accuracy_reached < 1 ? format_text("{:.1f} %", 100 * evidence.accuracy_reached) : "unknown";
    facts.push_back(
        {"Noise", format_text("up to {:.1f} %; accuracy wanted {:.1f} %, reached {}",
                              100 * evidence.noise_floor, 100 * evidence.accuracy_wanted, reached)});
  }
  std::string text;
  for (const Fact& fact : facts)
    text += format_text("<dt>{}</dt><dd>{}</dd>\n", fact.name, html_text(fact.text));
  return section("provenance", "Where this comes from", format_text("<dl class=\"facts\">\n{}</dl>\n", text));
}

std::string scripts(const Plan& plan) {
  if (!is_measured(plan)) return "";
  return format_text(
      "<script type=\"application/json\" "
      "id=\"data\">{}</script>\n<script>\n{}</script>\n<script>\n{}</script>\n",
      json_for_script(chart_data(plan)), kChartJs, kPageJs);
}

/// Returns the plan without the candidates that have no samples, because there is nothing to draw of them.
Plan with_samples_only(Plan plan) {
  std::set<int> sampled;
  for (const Sample& sample : plan.evidence.samples) sampled.insert(sample.candidate);
  std::erase_if(plan.evidence.candidates,
                [&](const CandidateEvidence& candidate) { return !sampled.contains(candidate.id); });
  return plan;
}

}  // namespace

std::string report_of(const Plan& plan, const Topology* topology) {
  const Plan shown = with_samples_only(plan);
  const std::string head = format_text(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n<title>{}</title>\n"
      "<style>\n{}</style>\n</head>\n",
      kPolicy, title(shown), kPageCss);
  return format_text("{}<body>\n\n{}{}{}{}{}{}{}{}</body>\n</html>\n", head, header(shown),
                     decision_section(shown), evidence_sections(shown), trial_section(shown),
                     homes_section(shown, topology), machine_section(shown, topology),
                     provenance_section(shown), scripts(shown));
}

}  // namespace zf
