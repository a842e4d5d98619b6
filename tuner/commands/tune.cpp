#include <limits>
#include <memory>

#include "base/format.hpp"
#include "base/text.hpp"
#include "commands/commands.hpp"
#include "commands/interrupt.hpp"
#include "commands/output.hpp"
#include "commands/progress.hpp"
#include "commands/results.hpp"
#include "commands/shared_arguments.hpp"
#include "measure/workload_file.hpp"
#include "os/standard_streams.hpp"
#include "report/recorded_words.hpp"
#include "search/tuning.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

CommandSpec spec() {
  return {"tune", "[tune] [-o FILE] [options]",
          "Measures this machine and writes a plan that says which cores train and which run the optimizer. "
          "zf-tune without a command does the same.",
          with_options_of_this_machine({
              {"output", 'o', "FILE", "file to write, - for standard output (default: plan.json)"},
              ranks_option(),
              {"workload", 'w', "FILE",
               "file that describes the training: parameters, ranks, update interval, demand of a step "
               "(default: proportions of a small model; e.g. one of configs/workloads)"},
              {"params", 'p', "COUNT",
               "number of model parameters, over all ranks of this node (default: as many as are measured; "
               "e.g. 3B)"},
              mode_option(),
              update_interval_option(),
              {"budget", 'b', "TIME",
               "longest time to measure (default: 60 times the first visit, from 20s to 10m; e.g. 30s, 2m)"},
              {"accuracy", 'a', "PERCENT",
               "smallest difference of periods that counts; smaller ones are ties (default: 2; e.g. 1)"},
              {"seed", 0, "N",
               "seed of the random order of visits and of a simulated machine's noise (default: 1; e.g. 7)"},
              {"fresh", 0, "",
               "start a new sweep even if an interrupted one left samples beside the plan (default: continue "
               "it)"},
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

Workload workload_argument(const Arguments& arguments, const std::optional<WorkloadFile>& file) {
  Workload workload{"small", 0, 0, 1};
  if (file) workload = file->workload;
  if (const auto params = arguments.text("params")) {
    if (file) {
      throw Error(
          Exit::usage,
          "zf-tune tune: --params cannot be used with --workload, whose file has the number of parameters",
          "change params in the workload file, and training with it");
    }
    workload.name = "params";
    workload.params = parse_quantity(*params, "zf-tune tune: --params");
  }
  return workload;
}

TuningRequest request_of(const Arguments& arguments, const std::optional<WorkloadFile>& file) {
  TuningRequest request;
  request.limits.seed =
      static_cast<unsigned>(arguments.integer("seed", 0, std::numeric_limits<int>::max()).value_or(1));
  if (const auto budget = arguments.text("budget")) {
    request.limits.budget_ns = parse_duration(*budget, "zf-tune tune: --budget");
  }
  if (const auto accuracy = arguments.text("accuracy")) {
    request.limits.accuracy = parse_percent(*accuracy, "zf-tune tune: --accuracy");
  }
  request.workload = workload_argument(arguments, file);
  request.has_workload_file = arguments.has("workload");
  request.ranks = ranks_argument(arguments);
  request.mode = mode_argument(arguments);
  request.update_interval = update_interval_argument(arguments);
  request.framework = framework_argument(arguments);
  request.for_deepspeed = for_deepspeed(arguments);
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
  return job_on_simulated_machine(file, request);
}

/// Returns the meter that writes the samples to a file beside the plan; null if the plan goes to standard
/// output.
std::unique_ptr<RecordingMeter> open_recorder(const TuningJob& job, const std::string& output,
                                              const Arguments& arguments) {
  if (output == "-") return nullptr;
  return make_recorder(job, output, arguments.has("fresh"));
}

/// Says what the sample file lacks, and if a sweep goes on.
void print_recorder(const RecordingMeter& recorder, const std::string& output) {
  if (!recorder.note().empty()) print_stderr("{}\n", one_line(recorder.note()));
  if (recorder.recorded_visits() > 0) {
    print_stderr("continuing the interrupted sweep in {}, which has {} (--fresh starts a new one)\n",
                 sample_file_of(output).string(), print_count(recorder.recorded_visits(), "visit"));
  }
}

/// Says that an interrupted sweep can go on, if it has samples for that.
void print_how_to_go_on(const RecordingMeter& recorder, bool fresh) {
  if (!recorder.can_continue()) return;
  print_stderr("the same command{} continues this sweep\n", fresh ? " without --fresh" : "");
}

/// Says in one line for which mode the plan is made, and how to change it if nobody chose it.
void print_mode(const Workload& workload, bool is_default, bool step_is_estimated) {
  print_stderr("mode {}, update interval {}{}\n", name_of(workload.mode), workload.update_interval,
               is_default ? " (the default; see --mode, --update-interval, --workload)" : "");
  const bool divides = workload.mode == Mode::backward || workload.mode == Mode::exact;
  if (divides && workload.training && !workload.training->forward_share) {
    print_stderr(
        "a third of a training step is taken as forward: an estimate (forward_share in a workload file sets "
        "it)\n");
  }
  if (step_is_estimated && workload.step_factor) {
    print_stderr(
        "the job's optimizer step is taken as {:.2f} times ours: an estimate by its bytes (step_factor in a "
        "workload file sets it)\n",
        *workload.step_factor);
  }
}

Exit run(const Arguments& arguments) {
  const PlanOutput output(arguments);
  const ReportOutput report(arguments, output.target());
  const auto file = workload_file_argument(arguments);
  TuningRequest request = request_of(arguments, file);
  if (output.target() != "-" && !arguments.has("fresh")) request.samples = sample_file_of(output.target());
  const auto simulate = arguments.text("simulate");
  TuningJob job = simulate
                      ? simulated_job_of(*simulate, arguments, request)
                      : job_on_this_machine(read_machine_and_ask_nvml(machine_source(arguments)), request);
  const bool quiet = arguments.has("quiet");
  const auto recorder = open_recorder(job, output.target(), arguments);
  const InterruptWatch interrupt;
  if (!quiet) {
    print_mode(job.workload, !simulate && !request.mode && !request.has_workload_file,
               job.workload.step_factor != request.workload.step_factor);
    if (!job.ranks_note.empty()) print_stderr("{}\n", job.ranks_note);
    if (recorder) print_recorder(*recorder, output.target());
  }
  if (!quiet && file) print_stderr("{}", estimates_in_words(*file));

  ProgressDisplay display(quiet);
  const Plan plan = tune(
      job, request, recorder.get(), [&] { return interrupt.signal(); },
      [&](const SweepProgress& progress) { display.show(progress); }, [&] { display.clear(); });
  output.write(plan);
  report.write(plan, &job.machine.topology);
  if (quiet) return Exit::done;
  const Results results(output.target());
  results.explain(plan, arguments);
  if (file && !simulate) results.print(forecast_in_words(*file, plan));
  if (recorder && interrupt.signal() != 0) {
    flush_stdout();  // the note stands below the table
    print_how_to_go_on(*recorder, arguments.has("fresh"));
  }
  return Exit::done;
}

}  // namespace

Command tune_command() { return {spec(), run}; }

}  // namespace zf
