#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "base/exit_after_signal.hpp"
#include "base/format.hpp"
#include "commands/commands.hpp"
#include "commands/interrupt.hpp"
#include "commands/job_warnings.hpp"
#include "commands/output.hpp"
#include "commands/progress.hpp"
#include "commands/results.hpp"
#include "commands/shared_arguments.hpp"
#include "measure/workload_file.hpp"
#include "os/standard_streams.hpp"
#include "report/recorded_words.hpp"
#include "report/tuned_plan.hpp"
#include "report/tuning_notes.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

CommandSpec tune_spec() {
  return {"tune", "[tune] [-o FILE] [options]",
          "Measures this machine and writes a plan that says which cores train and which run the optimizer. "
          "zf-tune without a command does the same.",
          with_options_of_this_machine({
              {"output", 'o', "FILE", "file to write, - for standard output (default: plan.json)"},
              ranks_option(),
              gpus_per_rank_option(),
              ranks_per_gpu_option(),
              {"workload", 'w', "FILE",
               "file that describes the training: parameters, ranks, update interval, demand of a step "
               "(default: proportions of a small model; e.g. one of configs/workloads)"},
              {"params", 0, "COUNT",
               "number of model parameters, over all ranks of this node "
               "(default: as many as are measured; e.g. 3B)"},
              mode_option(),
              update_interval_option(),
              state_option(),
              {"budget", 'b', "TIME",
               "longest time to measure (default: 60 times the first visit, from 20s to 10m; e.g. 30s, 2m)"},
              {"accuracy", 'a', "PERCENT",
               "smallest difference of periods that counts: if its interval is within that, it is a tie "
               "(default: 2; e.g. 1)"},
              {"seed", 0, "N",
               "seed of the random order of visits and of a simulated machine's noise (default: 1; e.g. 7)"},
              {"fresh", 0, "",
               "start a new sweep even if an interrupted one left samples beside the plan "
               "(default: continue it)"},
              {"simulate", 0, "FILE",
               "measure the simulated machine of this file (default: this machine; e.g. one of "
               "configs/machines)"},
              framework_option(),
              for_deepspeed_option(),
              report_option(),
              wide_option(),
              {"quiet", 'q', "", "print no progress and no table, only errors"},
          })};
}

std::optional<WorkloadFile> workload_file_argument(const Arguments& arguments) {
  const auto path = arguments.text("workload");
  return path ? std::optional(load_workload_file(*path)) : std::nullopt;
}

/// Returns the value of --params; nothing if it was not given. Throws Error(usage) beside a workload file.
std::optional<std::uint64_t> params_argument(const Arguments& arguments) {
  const auto params = arguments.text("params");
  if (!params) return std::nullopt;
  if (arguments.has("workload")) {
    throw Error(
        Exit::usage,
        "zf-tune tune: --params cannot be used with --workload: its file has the number of parameters",
        "change params in the workload file, and training with it");
  }
  return parse_quantity(*params, "zf-tune tune: --params");
}

TuningRequest request_of(const Arguments& arguments, const std::optional<WorkloadFile>& file,
                         const OutputFile& output) {
  TuningRequest request;
  request.limits.seed =
      static_cast<unsigned>(arguments.integer("seed", 0, std::numeric_limits<int>::max()).value_or(1));
  if (const auto budget = arguments.text("budget")) {
    request.limits.budget_ns = parse_duration(*budget, "zf-tune tune: --budget");
  }
  if (const auto accuracy = arguments.text("accuracy")) {
    request.limits.accuracy = parse_percent(*accuracy, "zf-tune tune: --accuracy");
  }
  request.workload =
      requested_workload(file ? std::optional(file->workload) : std::nullopt, params_argument(arguments));
  request.has_workload_file = file.has_value();
  request.ranks = ranks_argument(arguments);
  request.gpus = gpu_share_argument(arguments);
  request.mode = named_argument<Mode>(arguments, "mode");
  request.update_interval = update_interval_argument(arguments);
  request.framework = named_argument<Framework>(arguments, "framework");
  request.state_format = named_argument<StateFormat>(arguments, "state").value_or(StateFormat::fp32);
  request.for_deepspeed = for_deepspeed(arguments);
  if (!output.is_stdout()) request.plan = output.name();
  request.fresh = arguments.has("fresh");
  return request;
}

/// Returns the job on a simulated machine. Throws Error(usage) if an option describes the real machine.
TuningJob simulated_job_of(const std::string& file, const Arguments& arguments,
                           const TuningRequest& request) {
  for (const OptionSpec& option : machine_options()) {
    if (!arguments.has(option.name)) continue;
    throw Error(
        Exit::usage,
        format_text("zf-tune tune: --{} cannot be used with --simulate, which defines the whole machine",
                    option.name),
        "leave out one of the two");
  }
  if (request.state_format != StateFormat::fp32) {
    throw Error(
        Exit::usage,
        format_text("zf-tune tune: --state {} cannot be used with --simulate: its formulas are of fp32",
                    name_of(request.state_format)),
        "leave out one of the two");
  }
  return job_on_simulated_machine(file, request);
}

Exit tune_run(const Arguments& arguments) {
  const PlanOutput output(arguments);
  const ReportOutput report(arguments, output.file().name());
  const auto file = workload_file_argument(arguments);
  const TuningRequest request = request_of(arguments, file, output.file());
  const auto simulate = arguments.text("simulate");
  TuningJob job =
      simulate ? simulated_job_of(*simulate, arguments, request)
               : job_on_this_machine(read_machine_and_ask_nvml(source_for_planning(arguments)), request);
  const bool quiet = arguments.has("quiet");
  const auto recorder = make_recorder(job, request);
  const InterruptWatch interrupt;
  if (!quiet) {
    if (!simulate) {
      warn_of_few_cores(job.machine, job.workload.ranks);
      if (file || arguments.has("params"))
        warn_of_memory(job.workload, request.state_format, job.machine, machine_source(arguments));
    }
    for (const std::string& note : notes_before_sweep(request, job, recorder.get()))
      print_stderr("{}\n", note);
    if (file) print_stderr("{}", estimates_in_words(*file));
  }

  ProgressDisplay display(quiet, simulate ? Clock::hidden : Clock::shown);
  const Plan plan =
      plan_of(job, request,
              tune(
                  job, request, recorder.get(), [&] { return interrupt.signal(); },
                  [&](const SweepProgress& progress) { display.show(progress); }, [&] { display.clear(); }));
  output.write(plan);
  report.write(plan, &job.machine.topology);
  const Exit exit = exit_after_signal(interrupt.signal());
  if (quiet) return exit;
  const Results results(output.file().is_stdout() || report.is_stdout());
  results.explain(plan, arguments);
  if (file && !simulate) results.print_wrapped(forecast_in_words(*file, plan), arguments);
  if (recorder && exit != Exit::done) {
    flush_stdout();  // the note stands below the table
    if (const std::string how = how_to_go_on(request, *recorder); !how.empty()) print_stderr("{}\n", how);
  }
  return exit;
}

}  // namespace

Command tune_command() { return {tune_spec(), tune_run}; }

}  // namespace zf
