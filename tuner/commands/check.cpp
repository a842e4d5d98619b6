#include <fmt/core.h>

#include <chrono>
#include <optional>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "commands/commands.hpp"
#include "commands/shared_arguments.hpp"
#include "measure/bandwidth.hpp"
#include "planning/assemble.hpp"
#include "planning/node_facts.hpp"
#include "planning/other_homes.hpp"
#include "planning/plan_differences.hpp"

namespace zf {
namespace {

CommandSpec spec() {
  return {
      "check", "check [--bandwidth [--strict]] [--no-gpus] [options] [PLAN]",
      "Checks whether a plan (default: plan.json) fits this machine and this allocation. Exits with 0 if it "
      "fits; otherwise names every difference and exits with 3. If the plan fits and this version would cut "
      "the homes of its ranks better, it says what would be gained.",
      with_machine_options({
          {"bandwidth", 0, "",
           "also run the plan's optimizer pools for up to 5 s, and say whether this node is slower than the "
           "one where the plan was measured"},
          {"strict", 0, "",
           "with --bandwidth, exit with 3 also if the plan's measurements spread too much to tell (default: "
           "say "
           "so and exit with 0)"},
          {"no-gpus", 0, "",
           "do not look for GPUs and do not compare those of the ranks; nodes of one class may have "
           "different GPUs (default: compare them)"},
      }),
      1};
}

/// The time limit of --bandwidth. It includes reading the machine and the plan.
constexpr Nanoseconds kBandwidthDeadlineNs = 5 * kSecondNs;

Exit check_bandwidth(const std::string& path, const Plan& plan, const Allowed& allowed,
                     Nanoseconds started_ns, bool strict) {
  const PlannedBandwidth planned = planned_bandwidth(plan);
  std::optional<Bandwidth> now;
  if (can_tell(planned)) {
    const std::chrono::nanoseconds left(started_ns + kBandwidthDeadlineNs - now_ns() - kSecondNs / 4);
    now = measure_bandwidth(plan, allowed, std::chrono::duration_cast<std::chrono::milliseconds>(left));
  }
  const BandwidthVerdict verdict = compare_bandwidth(plan, planned, now, provenance_of("").host);
  fmt::print("{}\n", one_line(fmt::format("{}: {}", path, verdict.words)));
  return verdict.slow || (strict && !verdict.known) ? Exit::stale_plan : Exit::done;
}

Exit run(const Arguments& arguments) {
  const Nanoseconds started_ns = now_ns();
  const std::string path = arguments.positionals.empty() ? "plan.json" : arguments.positionals.front();
  const Plan plan = load_plan_and_note_format(path);
  const GpusOfRanks gpus = arguments.has("no-gpus") ? GpusOfRanks::left_out : GpusOfRanks::compared;
  MachineSource source = machine_source(arguments);
  source.with_io = gpus == GpusOfRanks::compared;
  source.with_speeds = false;
  source.keep_isolated = true;  // exec obeys a plan that has them
  const Machine machine = read_machine(source);
  if (arguments.has("bandwidth") && !machine.topology.is_this_machine) {
    throw Error(
        Exit::usage,
        fmt::format("zf-tune check: --bandwidth: {} is not this machine: nothing can be measured on it",
                    machine.topology.source),
        "leave out --topology and --sysroot");
  }
  const auto differences = plan_differences(plan, machine, gpus);
  for (const std::string& difference : differences)
    fmt::print("{}\n", one_line(fmt::format("{}: {}", path, difference)));
  if (!differences.empty()) return Exit::stale_plan;
  if (arguments.has("bandwidth"))
    return check_bandwidth(path, plan, machine.allowed, started_ns, arguments.has("strict"));
  for (const auto& note :
       {isolated_homes_note(plan, machine.allowed, machine.isolated), better_homes_note(plan, machine)}) {
    if (note) fmt::print("{}\n", one_line(fmt::format("{}: {}", path, *note)));
  }
  fmt::print("{}\n", one_line(path + ": fits this machine and this allocation"));
  return Exit::done;
}

}  // namespace

Command check_command() { return {spec(), run}; }

}  // namespace zf
