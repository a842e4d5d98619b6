#include "report/report.hpp"

#include <algorithm>
#include <set>

#include "base/format.hpp"
#include "base/text.hpp"
#include "planning/retarget.hpp"
#include "report/comparisons.hpp"
#include "report/explain.hpp"
#include "report/explain_homes.hpp"
#include "report/html.hpp"
#include "report/page_parts.hpp"
#include "search/contest.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

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

/// Returns what stands beside the figures of a plan that was fitted to other homes than were measured; empty
/// if it was not.
std::string note_of_homes(const Plan& plan) {
  const std::string homes = other_homes_measured(plan);
  return homes.empty() ? "" : paragraph("note", format_text("These figures are of other homes: {}.", homes));
}

/// Returns a part of a section. Empty if its content is.
std::string part(std::string_view id, std::string_view title, std::string_view content) {
  if (content.empty()) return "";
  return format_text("<div id=\"{}\">\n<h3>{}</h3>\n{}</div>\n", id, title, content);
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
  const std::string machine = is_simulated(plan) ? "" : (model.empty() ? "unknown CPU" : model) + " · ";
  return format_text(
      "<header>\n<p><b>{}</b> · {}</p>\n{}</header>\n\n", title(plan),
      html_text(format_text("{}made by {} on {}, {}", machine, plan.made.by, plan.made.host, plan.made.at)),
      badge);
}

std::string next_part(const Plan& plan, const std::string& plan_file) {
  const NextStep next = next_step(plan, plan_file);
  std::string text = "<div id=\"next\">\n<h2>What to type</h2>\n";
  for (const std::string& command : next.commands)
    text += format_text("<pre><code>{}</code></pre>\n", html_text(command));
  return text + paragraph("note", next.words) + "</div>\n";
}

/// Returns what fits one screen: the decision, how it compares, what to type, and why.
std::string decision_section(const Plan& plan, const std::string& plan_file) {
  std::string text = format_text("<h1>{}</h1>\n", html_text(headline_of(plan)));
  if (const std::string certainty = certainty_of(plan); !certainty.empty())
    text += paragraph("certainty", certainty);
  text += verdict_plot(plan) + note_of_homes(plan) + next_part(plan, plan_file);
  for (const std::string& warning : plan.warnings)
    text += paragraph("warning", format_text("Warning: {}.", warning));
  return format_text("<section id=\"decision\">\n{}{}</section>\n\n", text,
                     paragraph("why", format_text("Why: {}.", plan.choice.reason)));
}

std::string machine_section(const Plan& plan, const Topology* topology) {
  std::string text = html_table(bindings_table(plan));
  for (const std::string& note : plan.allocation.notes)
    text += paragraph("note", format_text("Note: {}.", note));
  if (topology != nullptr) {
    text += machine_drawing(plan, *topology);
  } else {
    text +=
        paragraph("note",
                  "This page was not made on a machine of the plan's class: the NUMA nodes and caches are "
                  "not known here.") +
        machine_drawing(plan, bare_topology(plan));
  }
  return section("machine", "Who runs where", text);
}

std::string sides_section(const Plan& plan) {
  const std::string plot = is_measured(plan) ? sides_plot(plan) : "";
  return plot.empty() ? ""
                      : section("sides", "Both sides over the size of the pool", plot + note_of_homes(plan));
}

/// Returns the table of all splits, and how far the job may differ from the workload.
std::string candidates_part(const Plan& plan) {
  if (!is_measured(plan)) return "";
  std::string text = paragraph("how", format_text("{}.", measured_in_words(plan))) + note_of_homes(plan) +
                     html_table(evidence_table(plan));
  if (was_checked(plan)) text += paragraph("note", format_text("{}.", sign_in_words(plan)));
  if (plan.choice.headroom)
    text += paragraph("how", format_text("Headroom: {}", headroom_in_words(*plan.choice.headroom)));
  return part("candidates", "All splits", text);
}

std::string trial_part(const Plan& plan) {
  if (!plan.trial) return "";
  return part("trial", "The job itself",
              paragraph("how", format_text("What {} printed where \"{}\" matches:", plan.trial->command,
                                           plan.trial->metric)) +
                  note_of_homes(plan) + html_table(trial_table(*plan.trial)) +
                  paragraph("note", format_text("{}.", sign_in_words(plan))));
}

/// Returns why each rank has its cores; empty if the machine is not known.
std::string homes_part(const Plan& plan, const Topology* topology) {
  if (topology == nullptr) return "";
  std::string text;
  for (const HomesPart& of_homes : parts_of_homes(plan, *topology))
    text += paragraph("how", of_homes.words) + html_table(of_homes.table);
  return part("homes", "Why these cores", text);
}

std::string provenance_part(const Plan& plan) {
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
  return part("provenance", "Where this comes from", format_text("<dl class=\"facts\">\n{}</dl>\n", text));
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

std::string report_of(const Plan& plan, const Topology* topology, const std::string& plan_file) {
  const Plan shown = with_samples_only(plan);
  const std::string details =
      candidates_part(shown) + trial_part(shown) + homes_part(shown, topology) + provenance_part(shown);
  return html_page(title(shown), header(shown) + decision_section(shown, plan_file) +
                                     machine_section(shown, topology) + sides_section(shown) +
                                     section("details", "Details", details));
}

}  // namespace zf
