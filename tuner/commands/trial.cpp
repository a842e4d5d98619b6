#include <unistd.h>

#include <filesystem>

#include "base/exit_after_signal.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "commands/commands.hpp"
#include "commands/interrupt.hpp"
#include "commands/output.hpp"
#include "commands/results.hpp"
#include "commands/shared_arguments.hpp"
#include "commands/terminal.hpp"
#include "compare/statistics.hpp"
#include "os/standard_streams.hpp"
#include "plan/plan_json.hpp"
#include "text/units.hpp"
#include "text/wrap.hpp"
#include "trial/trial_file.hpp"
#include "trial/trial_splits.hpp"
#include "trial/try_job.hpp"

namespace zf {
namespace {

CommandSpec trial_spec() {
  CommandSpec spec{
      "trial",
      "trial --metric REGEX [options] [--] COMMAND [ARG ...]",
      "Runs COMMAND under the best splits of a measured plan and under the controls, reads step times from "
      "its output, and writes the plan that won. COMMAND finds its plan in ZF_PLAN. With one rank, COMMAND "
      "is bound as zf-tune exec binds it. With several ranks, COMMAND must be a launcher that starts each "
      "rank with zf-tune exec.",
      {
          {"metric", 0, "REGEX",
           "ECMAScript regular expression that finds a number in the first 4096 characters of an output "
           "line: its only group, or the whole match if it has no group (e.g. 'step time: ([0-9.]+) ms')"},
          plan_option("the plan with the splits to try; before --, also without --plan (default: plan.json)"),
          {"output", 'o', "FILE",
           "file to write the winning plan to, - for standard output (default: plan.json)"},
          {"trials", 0, "N", "number of runs under each split, interleaved (default: 3; e.g. 5)"},
          {"candidates", 'c', "N",
           "number of pools to try besides the plan's own split and the controls: the fastest of the sweep, "
           "half, twice and four times its cores, then the next fastest "
           "(default: 4, which makes at most 9 splits; e.g. 6)"},
          {"warmup", 0, "N",
           "number of values to discard at the beginning of each run "
           "(default: a fifth of them, at least 1; e.g. 10)"},
          {"values", 0, "N",
           "number of values that count in each run, with the warm-up; the run is ended soon after it has "
           "printed them (default: all until it ends; e.g. 60)"},
          {"higher-is-better", 0, "", "the number is a throughput: higher is better (default: it is a time)"},
          {"timeout", 0, "TIME",
           "longest time of one run of COMMAND; the values until then count (default: 1h; e.g. 10m)"},
          {"run-to-end", 0, "",
           "let a run go on and repeat its split even if the split cannot win any more (default: end it)"},
          {"fresh", 0, "", "forget the runs of an interrupted trial (default: go on with them)"},
          {"show-output", 0, "", "print the output of COMMAND to standard error"},
          wide_option(),
          {"quiet", 'q', "", "print no progress and no table, only errors"},
      }};
  spec.wraps_command = true;
  return spec;
}

TrialRequest request_of(const Arguments& arguments) {
  if (arguments.wrapped.empty()) {
    throw Error(Exit::usage, "zf-tune trial: no command given",
                "write it after --, e.g. zf-tune trial --metric 'step: ([0-9.]+) ms' -- python train.py");
  }
  TrialRequest request;
  request.command = arguments.wrapped;
  request.trials = arguments.integer("trials", 1, 1000).value_or(request.trials);
  request.warmup = arguments.integer("warmup", 0, 1'000'000);
  request.values = arguments.integer("values", 1, 1'000'000);
  if (request.values && request.warmup.value_or(0) >= *request.values) {
    throw Error(Exit::usage,
                format_text("zf-tune trial: --warmup {} discards all of --values {}", *request.warmup,
                            *request.values),
                "give more values than the warm-up has");
  }
  request.higher_is_better = arguments.has("higher-is-better");
  if (const auto timeout = arguments.text("timeout")) {
    request.timeout_ns = parse_duration(*timeout, "zf-tune trial: --timeout");
  }
  request.run_to_end = arguments.has("run-to-end");
  request.fresh = arguments.has("fresh");
  if (!arguments.has("quiet")) {
    request.say = [](const std::string& line) { print_stderr("{}\n", one_line(line)); };
  }
  if (arguments.has("show-output")) {
    request.on_line = [](std::string_view line) { print_stderr("{}\n", line); };
  }
  return request;
}

Metric metric_of(const Arguments& arguments) {
  const auto pattern = arguments.text("metric");
  if (pattern) return Metric(*pattern);
  throw Error(Exit::usage, "zf-tune trial: --metric is missing",
              "give a regular expression that finds the step times in the output, e.g. "
              "--metric 'step time: ([0-9.]+) ms'");
}

void print_progress(const TrialProgress& progress) {
  const std::string left =
      progress.left_ns == 0 ? "" : format_text(", about {} left", print_duration(progress.left_ns));
  print_stderr("{}", wrapped(format_text("[run {} of {}{}] {}: median {:.4g} of {}", progress.run,
                                         progress.runs, left, progress.label, median(progress.values),
                                         print_count(progress.values.size(), "value")),
                             terminal_columns(STDERR_FILENO)));
}

Exit trial_run(const Arguments& arguments) {
  TrialRequest request = request_of(arguments);
  const Metric metric = metric_of(arguments);
  const PlanOutput output(arguments);
  const std::string path = named_or_default_plan(arguments).string();
  const Plan from = load_plan(path);
  MachineSource source;
  source.keep_isolated = from.intent.isolated;
  source.own_cpus = from.intent.own_cpus;
  const bool quiet = arguments.has("quiet");
  if (!output.file().is_stdout()) {
    request.file = trial_file_of(output.file().name());
    const OutputFile runs(request.file.string(), "-o");  // refused before the first run
  }
  const InterruptWatch interrupt;
  try {
    const Plan plan = try_job(
        from, path, read_machine_and_ask_nvml(source),
        arguments.integer("candidates", 1, 100).value_or(kDefaultTrialSizes), metric, request,
        [&] { return interrupt.signal(); }, quiet ? nullptr : print_progress);
    output.write(plan);
    // An interrupted trial can go on: its runs stay.
    if (interrupt.signal() == 0 && !request.file.empty()) std::filesystem::remove(request.file);
    if (!quiet) Results(output.file().is_stdout()).explain(plan, arguments);
  } catch (const TrialFailure& failure) {
    print_stderr("{}\n",
                 failure.last_lines().empty() ? "The command printed nothing." : "The command's last lines:");
    for (const std::string& line : failure.last_lines()) print_stderr("  | {}\n", one_line(line));
    throw;
  }
  return exit_after_signal(interrupt.signal());
}

}  // namespace

Command trial_command() { return {trial_spec(), trial_run}; }

}  // namespace zf
