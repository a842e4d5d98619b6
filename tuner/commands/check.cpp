#include <chrono>
#include <optional>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "commands/commands.hpp"
#include "commands/results.hpp"
#include "commands/shared_arguments.hpp"
#include "gpus/visible_gpus.hpp"
#include "measure/bandwidth.hpp"
#include "plan/given_policy.hpp"
#include "plan/plan_json.hpp"
#include "planning/assemble.hpp"
#include "planning/node_facts.hpp"
#include "planning/other_homes.hpp"
#include "planning/plan_differences.hpp"
#include "text/command_line.hpp"

namespace zf {
namespace {

CommandSpec check_spec() {
  return {
      "check", "check [--bandwidth [--strict]] [--no-gpus] [--whole-node] [options] [PLAN]",
      "Checks whether a plan (default: plan.json) fits this machine and this allocation. Exits with 0 if it "
      "fits; otherwise names every difference and exits with 3. If the plan fits and this version would cut "
      "the homes of its ranks better, it says what would be gained.",
      with_machine_options({
          plan_option(),
          {"bandwidth", 0, "",
           "also run the plan's optimizer pools for up to 5 s, and say whether this node is slower than the "
           "one where the plan was measured"},
          {"strict", 0, "",
           "with --bandwidth, exit with 3 also if the plan's measurements spread too much to tell (default: "
           "say so and exit with 0)"},
          {"no-gpus", 0, "",
           "do not look for GPUs and do not compare those of the ranks; nodes of one class may have "
           "different GPUs (default: compare them)"},
          {"whole-node", 0, "",
           "compare the plan with this machine, and not with the CPUs, memory and quota that this process "
           "may use: for a daemon that is confined. If it is too confined for --bandwidth, it says so as if "
           "the measurements spread (default: compare with what is allowed here)"},
      })};
}

/// The time limit of --bandwidth. It includes reading the machine and the plan.
constexpr Nanoseconds kBandwidthDeadlineNs = 5 * kSecondNs;

Exit check_bandwidth(const std::string& path, const Plan& plan, const Allowed& allowed, Extent extent,
                     Nanoseconds started_ns, bool strict) {
  const std::string host = provenance_of("").host;
  const PlannedBandwidth planned = planned_bandwidth(plan);
  const auto verdict_here = [&] {
    if (const auto why = why_confined(plan, allowed); why && extent == Extent::whole_node)
      return unmeasured_bandwidth(host, *why);
    std::optional<Bandwidth> now;
    if (can_tell(planned)) {
      const std::chrono::nanoseconds left(started_ns + kBandwidthDeadlineNs - now_ns() - kSecondNs / 4);
      now = measure_bandwidth(plan, allowed, std::chrono::duration_cast<std::chrono::milliseconds>(left));
    }
    return compare_bandwidth(plan, planned, now, host);
  };
  const BandwidthVerdict verdict = verdict_here();
  print_result_line(format_text("{}: {}", path, verdict.words));
  return verdict.slow || (strict && !verdict.known) ? Exit::stale_plan : Exit::done;
}

/// Says how a plan gets the GPUs that the job may see.
std::string with_remedy(const std::string& difference, const std::string& path) {
  return format_text("{}; {} fits the plan to them", difference, plan_from_command(path));
}

/// Throws Error(usage) if --bandwidth was given for another machine.
void need_this_machine(const Arguments& arguments, const Topology& topology) {
  if (!arguments.has("bandwidth") || topology.is_this_machine) return;
  throw Error(Exit::usage,
              format_text("zf-tune check: --bandwidth: {} is not this machine: nothing can be measured on it",
                          topology.source),
              "leave out --topology and --sysroot");
}

Exit check_run(const Arguments& arguments) {
  const Nanoseconds started_ns = now_ns();
  const std::string path = named_or_default_plan(arguments).string();
  if (arguments.has("strict") && !arguments.has("bandwidth")) {
    throw Error(Exit::usage, "zf-tune check: --strict does nothing without --bandwidth",
                "add --bandwidth, or leave out --strict");
  }
  const Plan plan = load_plan(path);
  const GpusOfRanks gpus = arguments.has("no-gpus") ? GpusOfRanks::left_out : GpusOfRanks::compared;
  const Extent extent = arguments.has("whole-node") ? Extent::whole_node : Extent::allocation;
  MachineSource source = machine_source(arguments);
  source.with_io = gpus == GpusOfRanks::compared;
  source.with_speeds = false;
  source.keep_isolated = true;  // exec obeys a plan that has them
  const Machine machine = read_machine(source);
  need_this_machine(arguments, machine.topology);
  const auto say = [&](const std::string& text) { print_result_line(format_text("{}: {}", path, text)); };
  auto differences = plan_differences(plan, machine, gpus, extent);
  if (gpus == GpusOfRanks::compared && extent == Extent::allocation) {
    const VisibleGpus visible =
        compare_visible_gpus(Environment::of_this_process(), gpus_of_ranks(plan), machine.topology);
    if (!visible.difference.empty()) differences.push_back(with_remedy(visible.difference, path));
    if (!visible.not_compared.empty()) say(visible.not_compared);
  }
  for (const std::string& difference : differences) say(difference);
  if (!differences.empty()) return Exit::stale_plan;
  if (extent == Extent::allocation) {  // they are about the plan's homes in this allocation
    for (const auto& note :
         {isolated_homes_note(plan, machine.allowed, machine.isolated), better_homes_note(plan, machine)}) {
      if (note) say(*note);
    }
    if (const auto given = policy_of_others(Environment::of_this_process());
        given && machine.topology.is_this_machine)
      say(kept_in_words(*given, rank_kept_away(plan, *given)));
  }
  if (arguments.has("bandwidth"))
    return check_bandwidth(path, plan, machine.allowed, extent, started_ns, arguments.has("strict"));
  say(extent == Extent::allocation ? "fits this machine and this allocation" : "fits this machine");
  return Exit::done;
}

}  // namespace

Command check_command() { return {check_spec(), check_run}; }

}  // namespace zf
