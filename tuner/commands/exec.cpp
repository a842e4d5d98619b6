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
      "Binds this process as a plan says, then runs COMMAND in its place: its exit status and its signals "
      "are those of COMMAND.",
      {
          {"plan", 'p', "FILE", "the plan (default: $ZF_PLAN, else plan.json)"},
          {"rank", 'r', "N",
           "local rank (default: from LOCAL_RANK, OMPI_COMM_WORLD_LOCAL_RANK, …, SLURM_LOCALID; e.g. 0)"},
          {"dry-run", 0, "", "print what would happen, and start nothing"},
          {"force", 0, "",
           "start the command even if the plan does not fit; unbound if nothing else is possible"},
          {"quiet", 'q', "", "print no notes, only errors"},
      }};
  spec.wraps_command = true;
  return spec;
}

/// Returns the path as it was given: by --plan, by ZF_PLAN or by default. An empty ZF_PLAN counts as unset.
std::filesystem::path plan_path(const Arguments& arguments, const Environment& environment) {
  if (const auto given = arguments.text("plan")) return *given;
  const std::string variable = environment.get("ZF_PLAN").value_or("");
  return variable.empty() ? "plan.json" : variable;
}

/// Returns a launch that binds nothing if zf-tune is switched off.
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
