#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "os/environment.hpp"
#include "plan/plan_json.hpp"
#include "tuner/assemble.hpp"
#include "tuner/available_memory.hpp"
#include "tuner/choose.hpp"
#include "tuner/command_line.hpp"
#include "tuner/commands/commands.hpp"
#include "tuner/commands/shared_arguments.hpp"
#include "tuner/explain.hpp"
#include "tuner/homes.hpp"
#include "tuner/interrupt.hpp"
#include "tuner/machine_meter.hpp"
#include "tuner/plan_output.hpp"
#include "tuner/rank_count.hpp"
#include "tuner/sweep.hpp"
#include "tuner/values.hpp"
#include "tuner/workload_file.hpp"

namespace zf {
namespace {

CommandSpec spec() {
  return {"tune", "[tune] [-o FILE] [options]",
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
              {"quiet", 'q', "", "no progress, no table: only the plan, and errors"},
          })};
}

void print_progress(const SweepProgress& progress) {
  fmt::print(stderr, "[{:>5.1f} s] round {}: {} takes {} per step ({:.0f} % of roofline); best so far: {}\n",
             static_cast<double>(progress.elapsed_ns) / 1e9, progress.round + 1, progress.visited->label,
             print_duration(progress.visited->period_ns_median), 100 * progress.visited->roofline_ratio,
             progress.best->label);
}

/// What the user asked for. `params` 0: nothing was; what is measured is then what there is. `ranks` 0:
/// likewise.
Workload given_workload(const Arguments& arguments) {
  Workload workload{"synthetic", 0, 0, 1};
  if (const auto file = arguments.text("workload")) workload = load_workload(*file);
  if (const auto params = arguments.text("params")) {
    workload.name = "params";
    workload.params = parse_quantity(*params, "zf-tune tune: --params");
  }
  if (const auto ranks = ranks_argument(arguments)) workload.ranks = *ranks;
  return workload;
}

std::optional<int> if_given(int ranks) { return ranks == 0 ? std::nullopt : std::optional(ranks); }

Exit run(const Arguments& arguments) {
  const PlanOutput output(arguments.text("output").value_or("plan.json"));
  Workload workload = given_workload(arguments);
  SweepLimits limits;
  if (const auto budget = arguments.text("budget")) {
    limits.budget_ns = parse_duration(*budget, "zf-tune tune: --budget");
  }

  const Machine machine = read_machine(machine_source(arguments));
  if (!machine.topology.is_this_machine) {
    throw Error(Exit::usage,
                fmt::format("{} is not this machine: nothing can be measured on it", machine.topology.source),
                "use zf-tune plan, which measures nothing");
  }
  workload.ranks =
      rank_count_of(if_given(workload.ranks), Environment::of_this_process(), machine.topology).count;
  const auto ranks = static_cast<std::size_t>(workload.ranks);
  const auto homes = homes_of(machine.topology, machine.allowed, std::vector<RankWish>(ranks));
  const WorkingSetSize size =
      working_set_size(workload.params, workload.ranks, last_level_cache_bytes(machine.topology),
                       available_memory_bytes(SysRoot(), machine.allowed));

  if (workload.params == 0) workload.params = size.elements_per_rank * ranks;

  const bool quiet = arguments.has("quiet");
  const double scale =
      static_cast<double>(size.elements_per_rank * ranks) / static_cast<double>(workload.params);
  MachineMeter meter(size.elements_per_rank, std::min(scale, 1.0));
  const InterruptWatch interrupt;
  limits.stop = [&] { return interrupt.signal() != 0; };
  SweepResult result =
      sweep(homes, workload.update_interval, meter, limits, quiet ? nullptr : print_progress);
  if (result.splits.empty()) {
    throw Error(Exit::runtime_error, "interrupted before anything was measured: no plan was written");
  }
  Choice choice = choose(result.evidence);
  if (interrupt.signal() != 0)
    choice.reason += fmt::format("; cut short by SIG{}", ::sigabbrev_np(interrupt.signal()));
  const Split& chosen = result.splits[static_cast<std::size_t>(choice.candidate)];
  std::vector<std::string> warnings = machine.topology.missing;
  if (!size.warning.empty()) warnings.push_back(size.warning);

  const Plan plan = assemble(provenance_of(command_line()), machine, workload, chosen, choice,
                             std::move(result.evidence), std::move(warnings));
  output.write(plan);
  if (!quiet) fmt::print(stderr, "\n{}", explain(plan));
  return Exit::done;
}

}  // namespace

Command tune_command() { return {spec(), run}; }

}  // namespace zf
