#include "tuner/exec.hpp"

#include <fmt/core.h>

#include <cstdio>

#include "base/cpu_list.hpp"
#include "plan/plan_json.hpp"
#include "tuner/commands/commands.hpp"
#include "tuner/machine.hpp"
#include "tuner/plan_in_memory.hpp"
#include "tuner/retarget.hpp"

namespace zf {
namespace {

CommandSpec spec() {
  CommandSpec spec{
      "exec",
      "exec [--plan FILE] [options] [--] COMMAND [ARG ...]",
      "Binds this process by a plan and becomes COMMAND, whose status and signals are its own.",
      {
          {"plan", 'p', "FILE", "the plan (default: $ZF_PLAN, else plan.json)"},
          {"rank", 'r', "N",
           "local rank (default: LOCAL_RANK, SLURM_LOCALID, OMPI_COMM_WORLD_LOCAL_RANK, … ; e.g. 0)"},
          {"dry-run", 0, "", "print what would happen, start nothing"},
          {"force", 0, "", "start the command even where the plan does not fit, unbound at worst"},
          {"quiet", 'q', "", "no notes, only errors"},
      }};
  spec.wraps_command = true;
  return spec;
}

/// The plan itself where it fits this rank here; else fitted to what is allowed, held in memory, and said so.
Launch launch_by(Plan plan, LaunchRequest request, const Environment& environment) {
  const Allowed allowed = read_allowed(SysRoot());
  if (fits(plan, rank_of(plan, request, environment).value, allowed)) {
    return launch_of(plan, request, allowed, environment);
  }
  std::string note;
  try {
    const Plan moved = retarget(plan, read_machine({}));
    note = fmt::format("{}, made for CPUs {}, is fitted to the CPUs allowed here, {}",
                       request.plan_path.string(), print(plan.allocation.cpus), print(moved.allocation.cpus));
    request.plan_path = plan_in_memory(moved);
    plan = moved;
  } catch (const Error& error) {
    if (!request.force) throw;
    note = error.what();
  }
  Launch launch = launch_of(plan, request, allowed, environment);
  launch.notes.insert(launch.notes.begin(), note);
  return launch;
}

/// What the plan asks for; nothing at all when switched off, or when the plan is of no use and --force is
/// given.
Launch launch_for(const Arguments& arguments, const Environment& environment) {
  if (switched_off(environment)) return {};
  const std::string path = arguments.text("plan").value_or(environment.get("ZF_PLAN").value_or("plan.json"));
  LaunchRequest request;
  request.plan_path = std::filesystem::absolute(path);
  request.rank = arguments.integer("rank", 0, 65535);
  request.force = arguments.has("force");
  try {
    return launch_by(load_plan(path), request, environment);
  } catch (const Error& error) {
    if (!request.force) throw;
    Launch unbound;
    unbound.notes.push_back(fmt::format("{}; going on, bound to nothing", error.what()));
    return unbound;
  }
}

Exit run(const Arguments& arguments) {
  if (arguments.wrapped.empty()) {
    throw Error(Exit::usage, "zf-tune exec: no command given",
                "write it after --, e.g. zf-tune exec -- python train.py");
  }
  const Environment environment = Environment::of_this_process();
  Launch launch = launch_for(arguments, environment);
  if (arguments.has("dry-run")) {
    fmt::print("{}", describe(launch, arguments.wrapped));
    return Exit::done;
  }
  apply(launch, arguments.has("force"));
  if (!arguments.has("quiet")) {
    for (const std::string& note : launch.notes) fmt::print(stderr, "zf-tune exec: {}\n", note);
  }
  become(arguments.wrapped);
}

}  // namespace

Command exec_command() { return {spec(), run}; }

}  // namespace zf
