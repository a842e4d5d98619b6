#include <fmt/core.h>

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

namespace zf {
namespace {

CommandSpec spec() {
  return {"tune",
          "[tune] [-o FILE] [options]",
          "Measures this machine and writes the binding plan (what zf-tune does without a command).",
          with_machine_options({
              {"output", 'o', "FILE", "where the plan goes, - for standard output (default: plan.json)"},
              ranks_option(),
              {"params", 'p', "COUNT",
               "parameters of the model, over all ranks of this node (e.g. 3B; default: as many as are measured)"},
              {"budget", 'b', "TIME", "how long to measure at the most (default: 60s; e.g. 30s, 2m)"},
              {"quiet", 'q', "", "no progress, no table: only the plan, and errors"},
          })};
}

void print_progress(const SweepProgress& progress) {
  fmt::print(stderr, "[{:>5.1f} s] round {}: {} takes {} per step ({:.0f} % of roofline); best so far: {}\n",
             static_cast<double>(progress.elapsed_ns) / 1e9, progress.round + 1, progress.visited->label,
             print_duration(progress.visited->step_ns_median), 100 * progress.visited->roofline_ratio,
             progress.best->label);
}

/// The synthetic workload when the user named none: what was measured is what there is.
Workload workload_of(std::uint64_t params, std::uint64_t elements_per_rank, int ranks) {
  const bool given = params != 0;
  return {given ? "params" : "synthetic", given ? params : elements_per_rank * static_cast<std::uint64_t>(ranks), ranks,
          1};
}

Exit run(const Arguments& arguments) {
  const PlanOutput output(arguments.text("output").value_or("plan.json"));
  const auto given_params = arguments.text("params");
  const std::uint64_t params = given_params ? parse_quantity(*given_params, "zf-tune tune: --params") : 0;
  SweepLimits limits;
  if (const auto budget = arguments.text("budget")) {
    limits.budget_ns = parse_duration(*budget, "zf-tune tune: --budget");
  }

  const Machine machine = read_machine(machine_source(arguments));
  if (!machine.topology.is_this_machine) {
    throw Error(Exit::usage, fmt::format("{} is not this machine: nothing can be measured on it", machine.topology.source),
                "use zf-tune plan, which measures nothing");
  }
  const RankCount ranks = rank_count_of(ranks_argument(arguments), Environment::of_this_process(), machine.topology);
  const auto homes = homes_of(machine.topology, machine.allowed, std::vector<RankWish>(static_cast<std::size_t>(ranks.count)));
  const WorkingSetSize size =
      working_set_size(params, ranks.count, last_level_cache_bytes(machine.topology),
                       available_memory_bytes(SysRoot(), machine.allowed));

  const bool quiet = arguments.has("quiet");
  MachineMeter meter(size.elements_per_rank);
  const InterruptWatch interrupt;
  limits.stop = [&] { return interrupt.signal() != 0; };
  SweepResult result = sweep(homes, meter, limits, quiet ? nullptr : print_progress);
  if (result.splits.empty()) {
    throw Error(Exit::runtime_error, "interrupted before anything was measured: no plan was written");
  }
  Choice choice = choose(result.evidence);
  if (interrupt.signal() != 0) choice.reason += fmt::format("; cut short by SIG{}", ::sigabbrev_np(interrupt.signal()));
  const Split& chosen = result.splits[static_cast<std::size_t>(choice.candidate)];
  std::vector<std::string> warnings = machine.topology.missing;
  if (!size.warning.empty()) warnings.push_back(size.warning);

  const Plan plan =
      assemble(provenance_of(command_line()), machine, workload_of(params, size.elements_per_rank, ranks.count), chosen,
               choice, std::move(result.evidence), std::move(warnings));
  output.write(plan);
  if (!quiet) fmt::print(stderr, "\n{}", explain(plan));
  return Exit::done;
}

}  // namespace

Command tune_command() { return {spec(), run}; }

}  // namespace zf
