#include <fmt/core.h>

#include <algorithm>

#include "commands/commands.hpp"
#include "commands/output.hpp"
#include "commands/shared_arguments.hpp"
#include "homes/deepspeed_homes.hpp"
#include "homes/rank_homes.hpp"
#include "machine/ranks.hpp"
#include "os/environment.hpp"
#include "os/standard_streams.hpp"
#include "plan/plan_json.hpp"
#include "planning/assemble.hpp"
#include "planning/retarget.hpp"
#include "report/explain.hpp"
#include "text/command_line.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

CommandSpec spec() {
  return {"plan", "plan [-o FILE] [options]",
          "Writes a plan without measuring anything: with --from, one made elsewhere, fitted to this "
          "allocation; else half of each home for either side.",
          with_machine_options({
              {"from", 0, "FILE", "a plan made on a machine of this class, whatever CPUs it had there"},
              {"force", 0, "",
               "with --from: also on a machine of another class, whose differences become a warning"},
              {"output", 'o', "FILE", "where the plan goes, - for standard output (default: plan.json)"},
              ranks_option(),
              {"params", 'p', "COUNT",
               "parameters of the model, over all ranks of this node (default: 1B; e.g. 3B)"},
              for_deepspeed_option(),
              {"quiet", 'q', "", "no table: only the plan, and errors"},
          })};
}

/// Without a measurement the split that DeepSpeed makes by default (pt_reserved_cores_perc 0.5), one PU per
/// core.
SplitShape unmeasured_shape(const std::vector<Home>& homes) {
  std::size_t cores = homes.front().cores.size();
  for (const Home& home : homes) cores = std::min(cores, home.cores.size());
  return {std::max(1, static_cast<int>(cores / 2)), 1, Placement::compact};
}

/// As if there were no time to measure.
Plan unmeasured(const Arguments& arguments) {
  const std::uint64_t params =
      parse_quantity(arguments.text("params").value_or("1B"), "zf-tune plan: --params");
  const bool deepspeed = for_deepspeed(arguments);
  const Machine machine = read_machine_and_ask_nvml(arguments);
  const RankCount ranks =
      rank_count_of(ranks_argument(arguments), Environment::of_this_process(), machine.topology);
  const RankGpus gpus = rank_gpus(Environment::of_this_process(), machine.topology, ranks.count);
  RankHomes placed = rank_homes(machine, gpus);
  Split split = split_of(placed.homes, unmeasured_shape(placed.homes));

  Choice choice;
  choice.reason = "nothing was measured: half of each home for either side, which is DeepSpeed's own default";
  if (deepspeed) {
    const std::string objection = deepspeed_objection(split, machine.topology);
    if (objection.empty()) {
      choice.reason += "; DeepSpeed can be told the free choice as it is";
    } else {
      placed = deepspeed_rank_homes(machine, gpus);
      split = split_of(placed.homes, unmeasured_shape(placed.homes));
      choice.reason += fmt::format(
          "; kept to what DeepSpeed can be told: {}. What that costs was not measured (the free "
          "choice: {})",
          restriction_in_words(placed.homes, machine.allowed), objection);
    }
  }
  for (const RankSplit& rank : split.ranks) {
    choice.pool_threads = std::max(choice.pool_threads, static_cast<int>(rank.pool.size()));
  }
  Plan plan = assemble(provenance_of(command_line()), machine, {"params", params, ranks.count, 1}, split,
                       choice, {}, machine.topology.missing, std::move(placed.notes));
  plan.intent.for_deepspeed = deepspeed;
  return plan;
}

Plan fitted(const Arguments& arguments, const std::string& from) {
  if (arguments.has("params")) {
    throw Error(Exit::usage, "zf-tune plan: --params cannot go with --from, which keeps what its plan has",
                "leave --params out, or make a new plan");
  }
  const RetargetOptions wishes{arguments.has("force"), for_deepspeed(arguments)};
  const Plan plan = load_plan(from);
  const Machine machine = read_machine(machine_source(arguments));
  const int ranks = ranks_argument(arguments).value_or(plan.workload.ranks);
  return retarget(plan, machine, moved_gpus(Environment::of_this_process(), machine.topology, plan, ranks),
                  wishes);
}

Exit run(const Arguments& arguments) {
  const PlanOutput output(arguments);
  const auto from = arguments.text("from");
  const Plan plan = from ? fitted(arguments, *from) : unmeasured(arguments);
  output.write(plan);
  if (!arguments.has("quiet")) print_stderr("\n{}", explain(plan));
  return Exit::done;
}

}  // namespace

Command plan_command() { return {spec(), run}; }

}  // namespace zf
