#include "report/explain.hpp"

#include <optional>

#include "base/format.hpp"
#include "base/text.hpp"
#include "commands/commands.hpp"
#include "commands/output.hpp"
#include "commands/results.hpp"
#include "commands/shared_arguments.hpp"
#include "machine/fingerprint.hpp"
#include "machine/machine.hpp"
#include "os/standard_streams.hpp"
#include "plan/plan_json.hpp"
#include "report/explain_homes.hpp"
#include "report/samples_csv.hpp"
#include "simulate/simulated_machine.hpp"
#include "topology/topology_hwloc.hpp"

namespace zf {
namespace {

CommandSpec explain_spec() {
  return {"explain",
          "explain [--homes] [--report FILE] [--samples FILE] [--wide] [PLAN]",
          "Explains a plan (default: plan.json): which CPUs and which memory each rank gets, what was "
          "measured, and why this split was chosen.",
          {plan_option(),
           {"homes", 0, "",
            "also say why each rank has its cores: what counts, what its home has of it, and what it lacks "
            "(default: no)"},
           report_option(),
           {"samples", 0, "FILE",
            "also write every measured period as CSV, - for standard output (default: no file; e.g. "
            "samples.csv)"},
           {"topology", 0, "FILE|TEXT",
            "the plan's machine, for --homes and --report: an hwloc XML file or a synthetic description "
            "(default: this machine, if the plan is for its class)"},
           {"sysroot", 0, "DIR",
            "the plan's machine, for --homes and --report: a folder with its /proc and /sys (default: /)"},
           {"simulate", 0, "FILE",
            "the plan's machine, for --homes and --report: the simulated machine of this file (e.g. one of "
            "configs/machines)"},
           wide_option()}};
}

/// Returns the machine of --homes and --report that an option names, if one does.
std::optional<Topology> named_machine(const Arguments& arguments, bool wanted) {
  for (const char* const option : {"topology", "sysroot", "simulate"}) {
    if (!arguments.has(option) || wanted) continue;
    throw Error(
        Exit::usage,
        format_text("zf-tune explain: --{} names the machine of --homes and --report, and neither was given",
                    option),
        format_text("give --homes or --report FILE as well, or leave out --{}", option));
  }
  if (const auto file = arguments.text("simulate")) return load_simulated_machine(*file).topology;
  if (const auto given = arguments.text("topology")) return read_topology({*given, {}});
  if (arguments.has("sysroot")) return read_machine(machine_source(arguments)).topology;
  return std::nullopt;
}

/// Says why each rank has its cores, on a page of so many columns. Throws Error(stale_plan) if the machine is
/// not of the plan's class.
void print_homes(const Plan& plan, const std::optional<Topology>& named, const Results& results,
                 std::size_t width) {
  const Topology machine = named ? *named : read_machine({}).topology;
  const auto differences = class_differences(plan.machine, machine_class_of(machine));
  if (!differences.empty()) {
    throw Error(Exit::stale_plan,
                format_text("zf-tune explain: --homes: the plan is not for {}: {}", machine.source,
                            differences.front()),
                "name the machine that the plan was made for with --topology, --sysroot or --simulate");
  }
  results.print("\n" + explain_homes(plan, machine, width));
}

void write_report(const Plan& plan, const std::optional<Topology>& named, const ReportOutput& report) {
  const Topology machine = named ? *named : read_topology({});
  const auto differences = class_differences(plan.machine, machine_class_of(machine));
  if (differences.empty()) return report.write(plan, &machine);
  if (named) {
    throw Error(Exit::stale_plan,
                format_text("the plan is not for {}: {}", machine.source, differences.front()),
                "name the machine that the plan was made for");
  }
  print_stderr(
      "this machine is not of the plan's class: the report draws no NUMA nodes and caches "
      "(name the plan's machine with --topology, --sysroot or --simulate)\n");
  report.write(plan, nullptr);
}

Exit explain_run(const Arguments& arguments) {
  const std::filesystem::path path = named_or_default_plan(arguments);
  const ReportOutput report(arguments, path);
  const auto samples = output_beside(path, arguments, "samples");
  if (samples && report.wanted() && samples->path() == report.file()->path()) {
    throw Error(Exit::usage, format_text("--samples {}: the report is written there", samples->name()),
                "name another file");
  }
  const auto named = named_machine(arguments, report.wanted() || arguments.has("homes"));
  const Plan plan = load_plan(path);
  const Results results(report.is_stdout() || (samples && samples->is_stdout()));
  const std::size_t width = page_width(arguments, results.stream());
  results.print(explain(plan, width));
  if (arguments.has("homes")) print_homes(plan, named, results, width);
  flush_stdout();  // what is said of the report stands below
  if (report.wanted()) write_report(plan, named, report);
  if (samples) samples->write(samples_csv(plan));
  if (samples && !samples->is_stdout()) print_stderr("wrote {}\n", one_line(samples->name()));
  return Exit::done;
}

}  // namespace

Command explain_command() { return {explain_spec(), explain_run}; }

}  // namespace zf
