#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>

#include "commands/commands.hpp"
#include "commands/interrupt.hpp"
#include "commands/output.hpp"
#include "commands/progress.hpp"
#include "commands/shared_arguments.hpp"
#include "homes/deepspeed_homes.hpp"
#include "homes/rank_homes.hpp"
#include "machine/fingerprint.hpp"
#include "machine/ranks.hpp"
#include "measure/machine_meter.hpp"
#include "measure/sample_file.hpp"
#include "measure/training_demand.hpp"
#include "measure/working_set_size.hpp"
#include "os/environment.hpp"
#include "os/standard_streams.hpp"
#include "plan/plan_json.hpp"
#include "planning/assemble.hpp"
#include "report/explain.hpp"
#include "search/choose.hpp"
#include "search/restriction_cost.hpp"
#include "search/sweep.hpp"
#include "simulate/simulated_job.hpp"
#include "simulate/simulated_meter.hpp"
#include "text/command_line.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

CommandSpec spec() {
  return {
      "tune", "[tune] [-o FILE] [options]",
      "Measures this machine and writes the binding plan (what zf-tune does without a command).",
      with_machine_options({
          {"output", 'o', "FILE", "where the plan goes, - for standard output (default: plan.json)"},
          ranks_option(),
          {"workload", 'w', "FILE",
           "what is to be trained: parameters, ranks, update interval (e.g. one of configs/workloads)"},
          {"params", 'p', "COUNT",
           "parameters of the model, over all ranks of this node (e.g. 3B; default: as many as are "
           "measured)"},
          {"budget", 'b', "TIME", "how long to measure at the most (default: 60s; e.g. 30s, 2m)"},
          {"accuracy", 'a', "PERCENT",
           "difference of periods to tell apart; smaller ones are ties (default: 2; e.g. 1)"},
          {"seed", 0, "N", "of the random order of visits, and of a simulated machine's noise (default: 1)"},
          {"fresh", 0, "", "measure anew, even if an interrupted sweep left samples beside the plan"},
          {"simulate", 0, "FILE",
           "sweep a simulated machine, e.g. one of configs/machines, instead of this one"},
          for_deepspeed_option(),
          report_option(),
          {"quiet", 'q', "", "no progress, no table: only the plan, and errors"},
      })};
}

/// What the user asked for. `params` 0: nothing was; what is measured is then what there is. `ranks` 0:
/// likewise.
Workload given_workload(const Arguments& arguments) {
  Workload workload{"small", 0, 0, kSmallUpdateInterval};
  if (const auto file = arguments.text("workload")) workload = load_workload(*file);
  if (const auto params = arguments.text("params")) {
    workload.name = "params";
    workload.params = parse_quantity(*params, "zf-tune tune: --params");
  }
  if (const auto ranks = ranks_argument(arguments)) workload.ranks = *ranks;
  return workload;
}

std::optional<int> if_given(int ranks) { return ranks == 0 ? std::nullopt : std::optional(ranks); }

/// Everything that a sweep needs.
struct Job {
  Machine machine;
  Workload workload;
  RankGpus gpus;
  RankHomes placed;
  std::unique_ptr<SimulatedModel> model;  ///< what `meter` measures, if it is simulated
  std::unique_ptr<Meter> meter;
  std::vector<std::string> warnings;
};

void warn_if_said(std::vector<std::string>& warnings, const std::string& warning) {
  if (!warning.empty()) warnings.push_back(warning);
}

/// What every rank measures: both sides of the workload, cut down alike.
RankWork work_of(const Workload& workload, std::uint64_t elements_per_rank, double scale) {
  RankWork work{elements_per_rank, {}, workload.update_interval, chosen_isa()};
  if (workload.training) work.training = scaled(*workload.training, scale);
  return work;
}

Job job_here(const Arguments& arguments) {
  Job job{read_machine_and_ask_nvml(arguments), given_workload(arguments), {}, {}, {}, {}, {}};
  const Topology& topology = job.machine.topology;
  if (!topology.is_this_machine) {
    throw Error(Exit::usage,
                fmt::format("{} is not this machine: nothing can be measured on it", topology.source),
                "use zf-tune plan, which measures nothing, or --simulate");
  }
  Workload& workload = job.workload;
  const Environment environment = Environment::of_this_process();
  workload.ranks = rank_count_of(if_given(workload.ranks), environment, topology).count;
  const auto ranks = static_cast<std::size_t>(workload.ranks);
  job.gpus = rank_gpus(environment, topology, workload.ranks);
  job.placed = rank_homes(job.machine, job.gpus);
  const WorkingSetSize size =
      working_set_size(workload.params, workload.ranks, last_level_cache_bytes(topology),
                       available_memory_bytes(SysRoot(), job.machine.allowed));
  if (workload.params == 0) workload.params = size.elements_per_rank * ranks;
  if (!arguments.has("workload")) {
    workload.training = small_demand(workload.params / ranks, workload.update_interval);
  }
  const double scale = std::min(
      1.0, static_cast<double>(size.elements_per_rank * ranks) / static_cast<double>(workload.params));
  job.meter = std::make_unique<MachineMeter>(work_of(workload, size.elements_per_rank, scale), scale);
  job.warnings = topology.missing;
  warn_if_said(job.warnings, size.warning);
  return job;
}

Job job_on_simulated(const std::string& file, const Arguments& arguments, int seed) {
  for (const OptionSpec& option : machine_options()) {
    if (!arguments.has(option.name)) continue;
    throw Error(Exit::usage,
                fmt::format("zf-tune tune: --{}: a simulated machine is all there is to see", option.name),
                "leave it out, or --simulate");
  }
  const Workload given = given_workload(arguments);
  SimulatedJob simulated =
      simulated_job(file, given.params == 0 ? std::nullopt : std::optional(given), ranks_argument(arguments));
  Job job{std::move(simulated.machine),
          simulated.model.workload(),
          std::move(simulated.gpus),
          std::move(simulated.placed),
          {},
          {},
          {}};
  job.model = std::make_unique<SimulatedModel>(std::move(simulated.model));
  job.meter = std::make_unique<SimulatedMeter>(*job.model, simulated.elements_per_rank,
                                               static_cast<std::uint64_t>(seed));
  job.warnings = {fmt::format("simulated with {}: nothing was measured on a real machine", file)};
  warn_if_said(job.warnings, simulated.warning);
  return job;
}

/// Puts the sample file beside the plan in between, if there is a file.
std::unique_ptr<RecordingMeter> recording(const Job& job, const std::string& output,
                                          const Arguments& arguments) {
  if (output == "-") return nullptr;
  const MachineClass machine = machine_class_of(job.machine.topology);
  const std::string header = sample_file_header(machine, allocation_of(job.machine.allowed, machine),
                                                job.workload, job.placed.homes, *job.meter);
  const auto path = sample_file_of(output);
  auto meter = std::make_unique<RecordingMeter>(*job.meter, path, header, arguments.has("fresh"));
  if (meter->recorded_visits() > 0 && !arguments.has("quiet")) {
    print_stderr("going on with {} visits of the interrupted sweep in {} (--fresh: begin anew)\n",
                 meter->recorded_visits(), path.string());
  }
  return meter;
}

SweepLimits limits_of(const Arguments& arguments) {
  SweepLimits limits;
  if (const auto budget = arguments.text("budget")) {
    limits.budget_ns = parse_duration(*budget, "zf-tune tune: --budget");
  }
  if (const auto accuracy = arguments.text("accuracy")) {
    limits.accuracy = parse_percent(*accuracy, "zf-tune tune: --accuracy");
  }
  return limits;
}

/// Of the budget, with --for deepspeed: for the plan, and again for the free choice; the rest compares the
/// two.
constexpr double kRestrictedShare = 0.4;

/// The plan's split, beside what it would have been without --for deepspeed.
std::string cost_for_deepspeed(const Job& job, const std::vector<Home>& free_homes, const Split& chosen,
                               double tie, const SweepLimits& limits, Nanoseconds deadline_ns) {
  const std::string kept = fmt::format("kept to what DeepSpeed can be told: {}, ",
                                       restriction_in_words(job.placed.homes, job.machine.allowed));
  const SweepResult free =
      limits.stop() ? SweepResult() : sweep(free_homes, job.workload, *job.meter, limits, nullptr);
  if (free.splits.empty() || limits.stop()) return kept + "at a cost that was not measured";
  const auto best = static_cast<std::size_t>(choose(free.evidence, job.workload).candidate);
  const Split& free_choice = free.splits[best];
  if (free_choice.ranks == chosen.ranks) return kept + "which costs nothing: it is the free choice";
  const Difference cost = restriction_cost(chosen, free_choice, job.workload.update_interval, *job.meter,
                                           deadline_ns, limits.stop);
  return kept + cost_in_words(cost, tie, free_choice.label);
}

Exit run(const Arguments& arguments) {
  const PlanOutput output(arguments);
  const ReportOutput report(arguments, output.target());
  SweepLimits limits = limits_of(arguments);
  const int seed = arguments.integer("seed", 0, std::numeric_limits<int>::max()).value_or(1);
  limits.seed = static_cast<unsigned>(seed);
  const auto simulate = arguments.text("simulate");
  const bool deepspeed = for_deepspeed(arguments);
  Job job = simulate ? job_on_simulated(*simulate, arguments, seed) : job_here(arguments);
  const std::vector<Home> free_homes = job.placed.homes;
  const Nanoseconds deadline_ns = job.meter->now() + limits.budget_ns;
  if (deepspeed) {
    job.placed = deepspeed_rank_homes(job.machine, job.gpus);
    limits.budget_ns = static_cast<Nanoseconds>(kRestrictedShare * static_cast<double>(limits.budget_ns));
  }
  const bool quiet = arguments.has("quiet");
  const auto recorder = recording(job, output.target(), arguments);
  const InterruptWatch interrupt;
  limits.stop = [&] { return interrupt.signal() != 0; };

  SweepResult result;
  {
    const ProgressDisplay display(quiet);
    Meter& meter = recorder ? static_cast<Meter&>(*recorder) : *job.meter;
    result = sweep(job.placed.homes, job.workload, meter, limits,
                   [&](const SweepProgress& progress) { display.show(progress); });
  }
  if (result.splits.empty()) {
    throw Error(Exit::runtime_error, "interrupted before anything was measured: no plan was written");
  }
  Choice choice = choose(result.evidence, job.workload);
  if (interrupt.signal() != 0) {
    choice.reason += fmt::format("; cut short by SIG{}", ::sigabbrev_np(interrupt.signal()));
  } else if (recorder) {
    recorder->finish();
  }
  const Split& chosen = result.splits[static_cast<std::size_t>(choice.candidate)];
  if (deepspeed) {
    choice.reason +=
        "; " + cost_for_deepspeed(job, free_homes, chosen, tie_of(result.evidence), limits, deadline_ns);
  }
  std::vector<std::string> warnings = job.warnings;
  for (std::string& warning : result.warnings) warnings.push_back(std::move(warning));

  Plan plan = assemble(provenance_of(command_line()), job.machine, job.workload, chosen, choice,
                       std::move(result.evidence), std::move(warnings), job.placed.notes);
  plan.intent.for_deepspeed = deepspeed;
  output.write(plan);
  report.write(plan, &job.machine.topology);
  if (!quiet) print_stderr("\n{}", explain(plan));
  return Exit::done;
}

}  // namespace

Command tune_command() { return {spec(), run}; }

}  // namespace zf
