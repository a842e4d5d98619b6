#include "launch/exec.hpp"

#include <fmt/core.h>

#include "base/text.hpp"
#include "commands/commands.hpp"
#include "launch/resolve_launch.hpp"
#include "os/standard_streams.hpp"

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
           "local rank (default: LOCAL_RANK, OMPI_COMM_WORLD_LOCAL_RANK, …, SLURM_LOCALID; e.g. 0)"},
          {"dry-run", 0, "", "print what would happen, start nothing"},
          {"force", 0, "", "start the command even where the plan does not fit, unbound at worst"},
          {"quiet", 'q', "", "no notes, only errors"},
      }};
  spec.wraps_command = true;
  return spec;
}

/// As it was named. A variable that is set to nothing is not set.
std::filesystem::path plan_path(const Arguments& arguments, const Environment& environment) {
  if (const auto given = arguments.text("plan")) return *given;
  const std::string variable = environment.get("ZF_PLAN").value_or("");
  return variable.empty() ? "plan.json" : variable;
}

/// Nothing at all when switched off.
Launch launch_for(const Arguments& arguments, const Environment& environment) {
  if (switched_off(environment)) return {};
  LaunchRequest request;
  request.plan_path = plan_path(arguments, environment);
  request.rank = arguments.integer("rank", 0, 65535);
  request.force = arguments.has("force");
  return resolve_launch(request, environment);
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
    for (const std::string& note : launch.notes) print_stderr("zf-tune exec: {}\n", one_line(note));
  }
  exec_or_throw(arguments.wrapped);
}

}  // namespace

Command exec_command() { return {spec(), run}; }

}  // namespace zf
