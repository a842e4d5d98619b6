#include <fmt/core.h>

#include <cstring>

#include "base/text.hpp"
#include "commands/commands.hpp"
#include "commands/interrupt.hpp"
#include "commands/output.hpp"
#include "commands/shared_arguments.hpp"
#include "homes/rank_homes.hpp"
#include "machine/fingerprint.hpp"
#include "os/standard_streams.hpp"
#include "plan/plan_json.hpp"
#include "planning/assemble.hpp"
#include "report/explain.hpp"
#include "text/command_line.hpp"
#include "text/statistics.hpp"
#include "text/units.hpp"
#include "trial/trial.hpp"
#include "trial/trial_runs.hpp"

namespace zf {
namespace {

CommandSpec spec() {
  CommandSpec spec{
      "trial",
      "trial --metric REGEX [options] [--] COMMAND [ARG ...]",
      "Runs COMMAND under the best splits of a measured plan and under the controls, reads its step times "
      "from "
      "its output, and writes the plan that won. COMMAND finds its plan in ZF_PLAN. With one rank it is "
      "bound "
      "as by zf-tune exec; with several it is a launcher whose ranks run under zf-tune exec.",
      {
          {"metric", 'm', "REGEX",
           "finds the number in a line of the output, in its first 4096 characters: its one group, else the "
           "whole match "
           "(ECMAScript; e.g. "
           "'step time: ([0-9.]+) ms')"},
          {"plan-from", 'p', "FILE", "the plan whose splits are tried (default: plan.json)"},
          {"output", 'o', "FILE", "where the winning plan goes, - for standard output (default: plan.json)"},
          {"trials", 't', "N", "runs under each split, interleaved (default: 3)"},
          {"candidates", 'c', "N", "splits of the sweep to try, besides the controls (default: 3)"},
          {"warmup", 'w', "N",
           "values to discard at the beginning of each run (default: a fifth of them, at least 1)"},
          {"higher-is-better", 0, "", "the number is a throughput (default: it is a time)"},
          {"timeout", 0, "TIME", "of one run of COMMAND (default: 1h; e.g. 10m)"},
          {"show-output", 0, "", "pass on what COMMAND says, to standard error"},
          {"quiet", 'q', "", "no progress, no table: only the plan, and errors"},
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
  request.higher_is_better = arguments.has("higher-is-better");
  if (const auto timeout = arguments.text("timeout")) {
    request.timeout_ns = parse_duration(*timeout, "zf-tune trial: --timeout");
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
              "say where the step times are in the output, e.g. --metric 'step time: ([0-9.]+) ms'");
}

void print_progress(const TrialProgress& progress) {
  print_stderr("[run {} of {}] {}: median {:.4g} of {} values\n", progress.run, progress.runs, progress.label,
               median(progress.values), progress.values.size());
}

/// The homes here, of as many ranks as the plan has. Throws Error(stale_plan) on a machine of another class.
RankHomes homes_for(const Plan& plan, const std::string& path, const Machine& machine) {
  const auto differences = class_differences(plan.machine, machine_class_of(machine.topology));
  if (!differences.empty()) {
    throw Error(Exit::stale_plan, fmt::format("{} is of another machine: {}", path, differences.front()),
                "make a plan here with zf-tune");
  }
  return rank_homes(machine,
                    moved_gpus(Environment::of_this_process(), machine.topology, plan, plan.workload.ranks));
}

Exit run(const Arguments& arguments) {
  TrialRequest request = request_of(arguments);
  const Metric metric = metric_of(arguments);
  const PlanOutput output(arguments);
  const std::string path = arguments.text("plan-from").value_or("plan.json");
  const Plan from = load_plan(path);
  const Machine machine = read_machine({});
  const RankHomes ranks = homes_for(from, path, machine);
  const auto splits =
      trial_splits(from.evidence, ranks.homes, arguments.integer("candidates", 1, 100).value_or(3));

  const auto plan_for = [&](const TrialSplit& split) {
    Choice choice;
    choice.candidate = split.evidence_id;
    for (const CandidateEvidence& measured : from.evidence.candidates) {
      if (measured.id == split.evidence_id) choice.period_ns_median = measured.period_ns_median;
    }
    for (const RankSplit& rank : split.split.ranks) {
      choice.pool_threads = std::max(choice.pool_threads, static_cast<int>(rank.pool.size()));
    }
    choice.reason = "under trial";
    return assemble(provenance_of(command_line()), machine, from.workload, split.split, choice, from.evidence,
                    from.warnings, ranks.notes);
  };

  const bool quiet = arguments.has("quiet");
  const InterruptWatch interrupt;
  request.stop = [&] { return interrupt.signal() != 0; };
  TrialResult result;
  try {
    result = run_trial(splits, plan_for, metric, request, quiet ? nullptr : print_progress);
  } catch (const TrialFailure& failure) {
    print_stderr("{}\n",
                 failure.last_lines().empty() ? "The command said nothing." : "The command's last lines:");
    for (const std::string& line : failure.last_lines()) print_stderr("  | {}\n", one_line(line));
    throw;
  }

  std::string reason = judge(result.trial);
  if (interrupt.signal() != 0)
    reason += fmt::format("; cut short by SIG{}", ::sigabbrev_np(interrupt.signal()));
  Plan plan = plan_for(result.splits[static_cast<std::size_t>(result.trial.winner)]);
  plan.choice.reason = std::move(reason);
  plan.warnings.insert(plan.warnings.end(), result.warnings.begin(), result.warnings.end());
  plan.trial = std::move(result.trial);
  output.write(plan);
  if (!quiet) print_stderr("\n{}", explain(plan));
  return Exit::done;
}

}  // namespace

Command trial_command() { return {spec(), run}; }

}  // namespace zf
