#include <algorithm>
#include <vector>

#include "base/format.hpp"
#include "base/text.hpp"
#include "fit/fit_report.hpp"
#include "text/units.hpp"
#include "text/wrap.hpp"

namespace zf {
namespace {

constexpr const char* kNone = "-";

std::string cell(std::uint64_t bytes) { return bytes == 0 ? kNone : print_memory(bytes); }

std::string table_of_phases(const MemoryForecast& forecast, std::size_t width) {
  std::vector<Table::Column> columns{{"host memory", Table::Align::left}};
  for (const auto& [phase, name] : kEnumNames<FitPhase>) columns.push_back({name});
  Table table(std::move(columns));
  for (const auto& [item, name] : kEnumNames<FitItem>) {
    std::vector<std::string> row{name};
    for (const PhaseMemory& phase : forecast.phases) row.push_back(cell(phase.of(item)));
    if (std::any_of(row.begin() + 1, row.end(), [](const auto& each) { return each != kNone; }))
      table.add(std::move(row));
  }
  std::vector<std::string> sum{"together"};
  for (const PhaseMemory& phase : forecast.phases) sum.push_back(cell(phase.bytes));
  table.add(std::move(sum));
  return table.print(width);
}

std::string job_in_words(const FitJob& job) {
  const std::string trainable =
      job.model.trainable == job.model.params
          ? ""
          : format_text(", {} of them trainable", print_quantity(job.model.trainable));
  const std::string nodes = job.nodes == 1 ? "" : format_text(" on each of {} nodes", job.nodes);
  return format_text("{} parameters{}; {}; {}{}, which {} on {}.", print_quantity(job.model.params),
                     trainable, in_words(job), print_count(static_cast<std::uint64_t>(job.ranks), "rank"),
                     nodes, job.ranks == 1 && job.nodes == 1 ? "computes" : "compute",
                     job.device == Device::gpu ? "GPUs" : "CPUs");
}

}  // namespace

FitReport fit_report(const FitJob& job, const NodeLimits& limits) {
  FitReport report;
  report.job = job;
  report.forecast = forecast_of(job);
  report.limits = limits;
  report.verdict = verdict_of(job, report.forecast, limits);
  report.changes = changes_that_help(job, limits);
  report.largest = largest_model(job, limits);
  return report;
}

std::string fit_text(const FitReport& report, std::size_t width) {
  const auto paragraph = [&](std::string_view text) { return hanging("", text, width); };
  std::string text = paragraph(in_words(report.verdict));
  text += paragraph(format_text("The limit is {}.", report.limits.capacity.limit));
  text += paragraph(job_in_words(report.job));
  text += "\n" + table_of_phases(report.forecast, width) + "\n";
  for (const std::string& problem : report.verdict.problems) text += paragraph(problem);
  if (!report.changes.empty()) {
    Table table({{"saves"}, {"change", Table::Align::left}, {"is enough", Table::Align::left}});
    for (const Change& change : report.changes)
      table.add({print_memory(change.saves), change.what, change.is_enough ? "yes" : "no"});
    text += "Changes that would help:\n" + table.print(width) + "\n";
  }
  text += paragraph(report.largest == 0
                        ? "No model fits as this job."
                        : format_text("The largest model that fits as this job has {} parameters.",
                                      print_quantity(report.largest)));
  for (const std::string& sentence : report.assumed) text += paragraph(sentence);
  if (const auto source = what_is_from_source(report.job)) text += paragraph(*source);
  text +=
      paragraph(report.job.device == Device::gpu ? "GPU memory is not estimated."
                                                 : "Activations are not estimated, and GPU memory is not.");
  return text;
}

}  // namespace zf
