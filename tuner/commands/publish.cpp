#include "os/publish.hpp"

#include <fmt/core.h>
#include <fmt/format.h>

#include <filesystem>

#include "plan/plan_json.hpp"
#include "tuner/commands/commands.hpp"
#include "tuner/commands/shared_arguments.hpp"
#include "tuner/fingerprint.hpp"

namespace zf {
namespace {

CommandSpec spec() {
  return {"publish", "publish --plans FOLDER --to FILE",
          "Copies the plan of this node's class to where jobs find it: what a Slurm prolog runs.",
          with_machine_options({
              {"plans", 0, "FOLDER",
               "holds one plan per class of nodes, CLASS.json; CLASS is the fingerprint that probe shows "
               "(e.g. /etc/zf-tune/plans)"},
              {"to", 0, "FILE", "in a folder that is only ours to write in (e.g. /run/zf-tune/4711.json)"},
          })};
}

std::string required(const Arguments& arguments, const std::string& option) {
  const auto value = arguments.text(option);
  if (!value) throw Error(Exit::usage, fmt::format("zf-tune publish: --{} is missing", option), "see --help");
  return *value;
}

Plan plan_of_class(const MachineClass& node, const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / (node.fingerprint + ".json");
  std::error_code error;
  if (std::filesystem::status(path, error).type() == std::filesystem::file_type::not_found) {
    throw Error(Exit::stale_plan,
                fmt::format("{}: no plan for this node's class ({}; {} packages, {} NUMA nodes, {} cores)",
                            path.string(), node.model, node.packages, node.numa_nodes, node.cores),
                "tune one node of the class and put its plan there");
  }
  Plan plan = load_plan(path);
  const auto differences = class_differences(plan.machine, node);
  if (!differences.empty()) {
    throw Error(Exit::stale_plan, fmt::format("{}: {}", path.string(), fmt::join(differences, "; ")),
                "the file's name is not the class of its plan: tune one node of the class again");
  }
  return plan;
}

Exit run(const Arguments& arguments) {
  const std::filesystem::path folder = required(arguments, "plans");
  const std::filesystem::path target = std::filesystem::absolute(required(arguments, "to"));
  MachineSource source = machine_source(arguments);
  // Looking for GPUs can hang on a broken driver, and a prolog has a second: the class does not depend on
  // them.
  source.with_io = false;
  const MachineClass node = machine_class_of(read_machine(source).topology);
  // Printed anew: what jobs read has our form, whatever whoever can write in the folder put there.
  publish_text_file(target, print_plan(plan_of_class(node, folder)));
  fmt::print("{}: the plan of class {}\n", target.string(), node.fingerprint);
  return Exit::done;
}

}  // namespace

Command publish_command() { return {spec(), run}; }

}  // namespace zf
