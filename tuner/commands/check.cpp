#include <fmt/core.h>

#include "plan/plan_check.hpp"
#include "plan/plan_json.hpp"
#include "tuner/commands/commands.hpp"
#include "tuner/commands/shared_arguments.hpp"
#include "tuner/fingerprint.hpp"

namespace zf {
namespace {

CommandSpec spec() {
  return {"check", "check [options] [PLAN]",
          "Says whether a plan (default: plan.json) fits this machine and this allocation: exit 0, or 3 with "
          "every "
          "difference named.",
          machine_options(), 1};
}

Exit run(const Arguments& arguments) {
  const std::string path = arguments.positionals.empty() ? "plan.json" : arguments.positionals.front();
  const Plan plan = load_plan(path);
  const Machine machine = read_machine(machine_source(arguments));
  auto differences = class_differences(plan.machine, machine_class_of(machine.topology));
  for (Difference& difference : differences_from_allowed(plan, machine.allowed)) {
    differences.push_back(std::move(difference));
  }
  for (const std::string& difference : differences) fmt::print("{}: {}\n", path, difference);
  if (differences.empty()) {
    fmt::print("{}: fits this machine and this allocation\n", path);
    return Exit::done;
  }
  return Exit::stale_plan;
}

}  // namespace

Command check_command() { return {spec(), run}; }

}  // namespace zf
