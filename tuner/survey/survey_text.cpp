#include <map>
#include <utility>

#include "base/format.hpp"
#include "base/text.hpp"
#include "machine/fingerprint.hpp"
#include "report/html.hpp"
#include "survey/node_names.hpp"
#include "survey/survey.hpp"
#include "text/wrap.hpp"

namespace zf {
namespace {

std::string machine_words(const MachineClass& machine) {
  return format_text(
      "{}, {}, {}, {}", machine.model.empty() ? "unknown CPU" : machine.model,
      print_count(machine.packages, "package"), print_count(machine.numa_nodes, "NUMA node"),
      machine.pus == machine.cores
          ? print_count(machine.cores, "core")
          : format_text("{} with {}", print_count(machine.cores, "core"), print_count(machine.pus, "CPU")));
}

std::string bandwidth_words(const std::optional<ClassBandwidth>& bandwidth) {
  return bandwidth ? format_text("{:.1f} GB/s", bandwidth->median_bytes_per_s / 1e9) : "not measured";
}

/// Returns "2 nodes", and their names.
std::string nodes_words(const std::vector<std::string>& names) {
  return format_text("{}: {}", print_count(names.size(), "node"), folded_names(names));
}

}  // namespace

Table classes_table(const Survey& survey) {
  using Align = Table::Align;
  Table table({{"class", Align::left},
               {"nodes"},
               {"machine", Align::left},
               {"GPUs", Align::left},
               {"bandwidth"},
               {"slowest", Align::left, Table::Need::detail},
               {"names", Align::left}});
  for (const NodeClass& one : survey.classes) {
    table.add({one.machine.fingerprint, format_text("{}", one.nodes), machine_words(one.machine),
               one.gpus ? in_words(*one.gpus) : "not known", bandwidth_words(one.bandwidth),
               one.slowest.empty() ? "" : format_text("{} ({:.0f} %)", one.slowest, 100 * one.slowest_share),
               one.names});
  }
  return table;
}

std::vector<std::string> findings(const Survey& survey) {
  std::map<std::string, std::vector<std::string>> odd;  // names by what is odd
  for (const OddNode& node : survey.odd) odd[in_words(node)].push_back(node.name);
  std::vector<std::string> lines;
  for (const auto& [words, names] : odd)
    lines.push_back(format_text("odd: {}: {}", folded_names(names), words));
  if (!survey.silent.empty()) lines.push_back("no answer from " + nodes_words(survey.silent));
  if (!survey.old.empty()) lines.push_back("too old is the answer of " + nodes_words(survey.old));
  for (const LeftOutFile& file : survey.left_out)
    lines.push_back(format_text("left out: {}: {}", one_line(file.file), one_line(file.why)));
  return lines;
}

std::string headline(const Survey& survey) {
  std::string text =
      format_text("{} of {} answered", print_count(survey.nodes, "node"),
                  survey.classes.size() == 1 ? "1 class" : format_text("{} classes", survey.classes.size()));
  const auto add = [&](std::size_t count, std::string_view what) {
    if (count > 0) text += format_text(", {} {}", count, what);
  };
  add(survey.odd.size(), "odd");
  add(survey.silent.size(), "silent");
  add(survey.old.size(), "too old");
  add(survey.left_out.size(), "left out");
  return text;
}

namespace {

/// Returns what is good to know and is no fault.
std::vector<std::string> notes(const Survey& survey) {
  std::vector<std::string> lines;
  if (!survey.unmeasured.empty()) {
    lines.push_back(format_text(
        "bandwidth is not measured on {}{}", nodes_words(survey.unmeasured),
        survey.why_unmeasured.empty()
            ? ""
            : format_text("; {} says: {}", survey.unmeasured.front(), one_line(survey.why_unmeasured))));
  }
  if (!survey.unlisted.empty())
    lines.push_back(format_text("not in --nodes, so not counted: {}", nodes_words(survey.unlisted)));
  return lines;
}

std::string html_list(const std::vector<std::string>& lines) {
  std::string text = "<ul>\n";
  for (const std::string& line : lines) text += format_text("<li>{}</li>\n", html_text(line));
  return text + "</ul>\n";
}

}  // namespace

std::string survey_text(const Survey& survey, std::size_t width) {
  std::string text = headline(survey) + "\n";
  if (!survey.classes.empty()) text += "\n" + classes_table(survey).print(width);
  const auto add = [&](const std::vector<std::string>& lines) {
    if (!lines.empty()) text += "\n";
    for (const std::string& line : lines) text += wrapped(line, width);
  };
  add(findings(survey));
  add(notes(survey));
  return text;
}

std::string survey_page(const Survey& survey) {
  const std::vector<std::string> found = findings(survey);
  const std::vector<std::string> noted = notes(survey);
  std::string body = format_text(
      "<header>\n<p><b>Survey of a cluster</b></p>\n</header>\n\n<section id=\"classes\">\n"
      "<h2>{}</h2>\n{}</section>\n\n",
      html_text(headline(survey)), html_table(classes_table(survey)));
  if (!found.empty())
    body += format_text("<section id=\"findings\">\n<h2>To be looked at</h2>\n{}</section>\n\n",
                        html_list(found));
  if (!noted.empty())
    body += format_text("<section id=\"notes\">\n<h2>Notes</h2>\n{}</section>\n\n", html_list(noted));
  return html_page("Survey of a cluster", body);
}

}  // namespace zf
