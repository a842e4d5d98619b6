#include <fmt/core.h>
#include <unistd.h>

#include "commands/commands.hpp"
#include "commands/output.hpp"
#include "commands/shared_arguments.hpp"
#include "machine/ranks.hpp"
#include "os/environment.hpp"
#include "os/standard_streams.hpp"
#include "plan/plan_json.hpp"
#include "planning/retarget.hpp"
#include "planning/unmeasured_plan.hpp"
#include "report/explain.hpp"
#include "text/command_line.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

CommandSpec spec() {
  return {
      "plan", "plan [-o FILE] [options]",
      "Writes a plan without measuring anything. With --from, it fits a plan that was made elsewhere to this "
      "allocation. Otherwise half of each rank's cores train and half run the optimizer, or both share all "
      "cores "
      "(--mode wait).",
      with_machine_options({
          {"from", 0, "FILE",
           "a plan that was made on a machine of this class, with any CPUs (default: make a new plan)"},
          {"force", 0, "",
           "with --from: fit the plan even if it is for another class of machine; the differences become a "
           "warning"},
          {"output", 'o', "FILE", "file to write, - for standard output (default: plan.json)"},
          ranks_option(),
          {"params", 'p', "COUNT",
           "number of model parameters, over all ranks of this node (default: 1B; e.g. 3B)"},
          framework_option(),
          {"mode", 0, "NAME",
           "how the job overlaps the optimizer step with training: " + mode_names() +
               "; in mode wait both sides share the whole home, since they take turns (default: overlap)"},
          for_deepspeed_option(),
          wide_option(),
          {"quiet", 'q', "", "print no table, only errors"},
      })};
}

Mode mode_argument(const Arguments& arguments) {
  const std::string name = arguments.text("mode").value_or(name_of(Mode::overlap));
  if (const auto mode = mode_named(name)) return *mode;
  throw Error(Exit::usage, fmt::format("zf-tune plan: --mode: \"{}\" is not known", name),
              "give one of " + mode_names());
}

Plan make_unmeasured_plan(const Arguments& arguments) {
  const std::uint64_t params =
      parse_quantity(arguments.text("params").value_or("1B"), "zf-tune plan: --params");
  const bool deepspeed = for_deepspeed(arguments);
  const Machine machine = read_machine_and_ask_nvml(arguments);
  const Environment environment = Environment::of_this_process();
  const RankCount ranks = rank_count_of(ranks_argument(arguments), environment, machine.topology);
  Workload workload{"params", params, ranks.count, 1};
  workload.mode = mode_argument(arguments);
  workload.framework = framework_argument(arguments).value_or(Framework::unknown);
  return unmeasured_plan(machine, rank_gpus(environment, machine.topology, ranks.count), workload, deepspeed,
                         command_line());
}

Plan make_retargeted_plan(const Arguments& arguments, const std::string& from) {
  if (arguments.has("params")) {
    throw Error(Exit::usage,
                "zf-tune plan: --params cannot be used with --from, which keeps the parameters of its plan",
                "leave out --params, or make a new plan without --from");
  }
  if (arguments.has("mode")) {
    throw Error(Exit::usage,
                "zf-tune plan: --mode cannot be used with --from, which keeps the mode of its plan",
                "leave out --mode, or make a new plan without --from");
  }
  const RetargetOptions options{arguments.has("force"), for_deepspeed(arguments)};
  Plan plan = load_plan(from);
  if (const auto framework = framework_argument(arguments)) plan.workload.framework = *framework;
  const Machine machine = read_machine(machine_source(arguments));
  const int ranks = ranks_argument(arguments).value_or(plan.workload.ranks);
  return retarget(plan, machine, moved_gpus(Environment::of_this_process(), machine.topology, plan, ranks),
                  options);
}

Exit run(const Arguments& arguments) {
  const PlanOutput output(arguments);
  const auto from = arguments.text("from");
  const Plan plan = from ? make_retargeted_plan(arguments, *from) : make_unmeasured_plan(arguments);
  output.write(plan);
  if (!arguments.has("quiet")) print_stderr("\n{}", explain(plan, page_width(arguments, STDERR_FILENO)));
  return Exit::done;
}

}  // namespace

Command plan_command() { return {spec(), run}; }

}  // namespace zf
