#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "commands/commands.hpp"
#include "commands/job_warnings.hpp"
#include "commands/output.hpp"
#include "commands/results.hpp"
#include "commands/shared_arguments.hpp"
#include "gpus/moved_gpus.hpp"
#include "gpus/rank_gpus.hpp"
#include "homes/deepspeed_homes.hpp"
#include "machine/rank_count.hpp"
#include "os/environment.hpp"
#include "os/standard_streams.hpp"
#include "plan/plan_json.hpp"
#include "planning/plan_differences.hpp"
#include "planning/retarget.hpp"
#include "planning/unmeasured_plan.hpp"
#include "text/command_line.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

CommandSpec plan_spec() {
  return {
      "plan", "plan [-o FILE] [options]",
      "Writes a plan without measuring anything. With --from, it fits a plan that was made elsewhere to this "
      "allocation. Otherwise both sides share all cores of each rank's home where training waits for the "
      "optimizer (--mode wait), and half of the cores train and half run the optimizer in the other modes.",
      with_machine_options({
          {"from", 0, "FILE",
           "a plan that was made on a machine of this class, with any CPUs (default: make a new plan)"},
          {"force", 0, "",
           "with --from: fit the plan even if it is for another class of machine; "
           "the differences become a warning"},
          {"output", 'o', "FILE", "file to write, - for standard output (default: plan.json)"},
          ranks_option(),
          gpus_per_rank_option(),
          ranks_per_gpu_option(),
          {"within", 0, "LIST",
           "make homes inside these CPUs; unlike --allowed, this does not make them the job's own (default: "
           "all that are allowed; e.g. 0-31)"},
          {"all-gpus", 0, "", "count also GPUs with device nodes that this process may not open"},
          {"params", 0, "COUNT",
           "number of model parameters, over all ranks of this node (default: 1B; e.g. 3B)"},
          framework_option(),
          mode_option(),
          update_interval_option(),
          state_option(),
          for_deepspeed_option(),
          wide_option(),
          {"quiet", 'q', "", "print no table, only errors"},
      })};
}

MachineSource source_of_plan(const Arguments& arguments) {
  MachineSource source = source_for_planning(arguments);
  if (const auto list = arguments.text("within")) source.within = parse_cpu_list(*list, "--within");
  if (source.within && source.allowed) {
    throw Error(Exit::usage, "zf-tune plan: --within and --allowed both name CPUs", "give one of them");
  }
  return source;
}

Plan make_unmeasured_plan(const Arguments& arguments) {
  const std::uint64_t params =
      parse_quantity(arguments.text("params").value_or("1B"), "zf-tune plan: --params");
  const bool deepspeed = for_deepspeed(arguments);
  const Machine machine = read_machine_and_ask_nvml(source_of_plan(arguments));
  const Environment environment = Environment::of_this_process();
  const GpuShare share = gpu_share_argument(arguments);
  const RankCount ranks = rank_count_of(ranks_argument(arguments), environment, machine.topology, share);
  const std::string note = rank_count_note(ranks);
  if (!note.empty() && !arguments.has("quiet")) print_stderr("{}\n", note);
  Workload workload{"params", params, ranks.count, update_interval_argument(arguments).value_or(1)};
  workload.mode = named_argument<Mode>(arguments, "mode").value_or(kDefaultMode);
  workload.framework = named_argument<Framework>(arguments, "framework").value_or(Framework::unknown);
  Plan plan = unmeasured_plan(machine, rank_gpus(environment, machine.topology, ranks.count, share), workload,
                              deepspeed, command_line());
  plan.intent.state_format = named_argument<StateFormat>(arguments, "state").value_or(StateFormat::fp32);
  if (!arguments.has("quiet")) {
    warn_of_few_cores(machine, ranks.count);
    if (arguments.has("params"))
      warn_of_memory(plan.workload, plan.intent.state_format, machine, machine_source(arguments));
  }
  return plan;
}

/// Throws Error(infeasible) if DeepSpeed cannot be told the plan: its homes are fitted to DeepSpeed, but a
/// shared home stays shared, and SuperOffload divides it.
void need_deepspeed(const Plan& plan) {
  if (const auto why = why_not_deepspeed(plan.ranks, plan.machine.cores, plan.workload.framework)) {
    throw Error(Exit::infeasible, format_text("DeepSpeed cannot be told this plan: {}", *why),
                "make a new plan without --from");
  }
}

/// Returns true if the CPUs are the job's own by name: --allowed names them, or it did so when the plan was
/// made. That is forgotten with CPUs that it did not name, if there is no quota by which neighbours could
/// share them.
bool are_own_by_name(const Plan& plan, const MachineSource& source, const Allowed& here) {
  if (source.allowed || !plan.intent.own_cpus) return source.allowed.has_value();
  return here.cpu_quota || plan.allocation.cpus.contains(here.cpus);
}

Plan make_retargeted_plan(const Arguments& arguments, const std::string& from) {
  if (arguments.has("params")) {
    throw Error(Exit::usage,
                "zf-tune plan: --params cannot be used with --from, which keeps the parameters of its plan",
                "leave out --params, or make a new plan without --from");
  }
  for (const char* const option : {"mode", "update-interval", "state"}) {
    if (!arguments.has(option)) continue;
    throw Error(
        Exit::usage,
        format_text("zf-tune plan: --{} cannot be used with --from, which keeps the workload of its plan",
                    option),
        format_text("leave out --{}, or make a new plan without --from", option));
  }
  const RetargetOptions options{arguments.has("force"), for_deepspeed(arguments)};
  Plan plan = load_plan(from);
  if (const auto framework = named_argument<Framework>(arguments, "framework"))
    plan.workload.framework = *framework;
  MachineSource source = source_of_plan(arguments);
  source.keep_isolated = source.keep_isolated || plan.intent.isolated;
  source.own_cpus = plan.intent.own_cpus;
  Machine machine = read_machine_and_ask_nvml(source);
  plan.intent.own_cpus = machine.allowed.own_by_name = are_own_by_name(plan, source, machine.allowed);
  const Environment environment = Environment::of_this_process();
  const GpuShare share = gpu_share_argument(arguments);
  const auto given = ranks_argument(arguments);
  // The options make the number of ranks anew only if they are not the plan's.
  const auto planned =
      share.is_given() && share != plan.intent.gpu_share() ? given : given.value_or(plan.workload.ranks);
  const bool holds_to_plan = given && !share.is_given() && !usable_gpus(machine.topology).empty();
  const int ranks =
      rank_count_of(planned, environment, machine.topology, holds_to_plan ? plan.intent.gpu_share() : share)
          .count;
  Plan moved =
      retarget(plan, machine, renewed_gpus(environment, machine.topology, plan, ranks, share), options);
  mark_older_evidence(plan, moved);
  if (options.for_deepspeed) need_deepspeed(moved);
  if (!arguments.has("quiet")) {
    warn_of_few_cores(machine, ranks);
    warn_of_memory(moved.workload, moved.intent.state_format, machine, source);
  }
  return moved;
}

Exit plan_run(const Arguments& arguments) {
  const PlanOutput output(arguments);
  const auto from = arguments.text("from");
  if (!from && arguments.has("force")) {
    throw Error(Exit::usage, "zf-tune plan: --force does nothing without --from",
                "name a plan with --from, or leave out --force");
  }
  const Plan plan = from ? make_retargeted_plan(arguments, *from) : make_unmeasured_plan(arguments);
  output.write(plan);
  if (!arguments.has("quiet")) Results(output.file().is_stdout()).explain(plan, arguments);
  return Exit::done;
}

}  // namespace

Command plan_command() { return {plan_spec(), plan_run}; }

}  // namespace zf
