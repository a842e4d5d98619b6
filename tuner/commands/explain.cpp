#include "tuner/explain.hpp"

#include <fmt/core.h>

#include "plan/plan_json.hpp"
#include "tuner/commands/commands.hpp"

namespace zf {
namespace {

CommandSpec spec() {
  return {
      "explain",
      "explain [PLAN]",
      "Says in words what a plan (default: plan.json) binds where, what was measured, and why it was chosen.",
      {},
      1};
}

Exit run(const Arguments& arguments) {
  fmt::print("{}",
             explain(load_plan(arguments.positionals.empty() ? "plan.json" : arguments.positionals.front())));
  return Exit::done;
}

}  // namespace

Command explain_command() { return {spec(), run}; }

}  // namespace zf
