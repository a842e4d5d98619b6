#include "os/publish.hpp"

#include <fmt/core.h>
#include <fmt/format.h>

#include <filesystem>

#include "commands/commands.hpp"
#include "commands/shared_arguments.hpp"
#include "machine/fingerprint.hpp"
#include "os/standard_streams.hpp"
#include "plan/plan_json.hpp"

namespace zf {
namespace {

CommandSpec spec() {
  return {
      "publish", "publish --plans FOLDER --to FILE [--remember FILE]",
      "Copies the plan of this node's class to where jobs find it: what a Slurm prolog runs.",
      with_machine_options({
          {"plans", 0, "FOLDER",
           "holds one plan per class of nodes, CLASS.json; CLASS is the fingerprint that probe shows "
           "(e.g. /etc/zf-tune/plans)"},
          {"to", 0, "FILE", "in a folder that is only ours to write in (e.g. /run/zf-tune/4711.json)"},
          {"remember", 0, "FILE",
           "keeps the node's class there; the plan of that class is taken when the class that the node is "
           "now has none, so that check says what changed (default: none; e.g. /var/lib/zf-tune/class)"},
      })};
}

std::string required(const Arguments& arguments, const std::string& option) {
  const auto value = arguments.text(option);
  if (!value || value->empty())
    throw Error(Exit::usage, fmt::format("zf-tune publish: --{} is missing", option), "see --help");
  return *value;
}

std::filesystem::path path_of_class(const std::string& fingerprint, const std::filesystem::path& folder) {
  return folder / (fingerprint + ".json");
}

/// Absent: the folder has no plan of this class.
std::optional<Plan> plan_of_class(const std::string& fingerprint, const std::filesystem::path& folder) {
  const std::filesystem::path path = path_of_class(fingerprint, folder);
  std::error_code error;
  if (std::filesystem::status(path, error).type() == std::filesystem::file_type::not_found) return {};
  return load_plan(path);
}

Plan present_plan(const MachineClass& node, const std::filesystem::path& folder) {
  std::optional<Plan> plan = plan_of_class(node.fingerprint, folder);
  const std::string path = path_of_class(node.fingerprint, folder).string();
  if (!plan) {
    throw Error(Exit::stale_plan,
                fmt::format("{}: no plan for this node's class ({}; {} packages, {} NUMA nodes, {} cores)",
                            path, node.model, node.packages, node.numa_nodes, node.cores),
                "tune one node of the class and put its plan there");
  }
  const auto differences = class_differences(plan->machine, node);
  if (!differences.empty()) {
    throw Error(Exit::stale_plan, fmt::format("{}: {}", path, fmt::join(differences, "; ")),
                "the file's name is not the class of its plan: tune one node of the class again");
  }
  return *std::move(plan);
}

/// Absent: nothing was remembered. What is no fingerprint names no file.
std::optional<std::string> remembered_class(const std::filesystem::path& file) {
  auto text = read_published_file(file);
  if (!text) return {};
  if (text->ends_with('\n')) text->pop_back();
  if (text->size() == 16 && text->find_first_not_of("0123456789abcdef") == std::string::npos) return text;
  throw Error(Exit::runtime_error, fmt::format("{}: holds no class of nodes", file.string()), "remove it");
}

/// The plan of the class that the node was of when it last had one. Absent: there is none either.
std::optional<Plan> remembered_plan(const std::filesystem::path& file, const std::filesystem::path& folder) {
  const auto fingerprint = remembered_class(file);
  return fingerprint ? plan_of_class(*fingerprint, folder) : std::nullopt;
}

/// What cannot be remembered is said: the plan is published all the same.
void remember(const std::string& fingerprint, const std::filesystem::path& file) {
  try {
    const auto before = remembered_class(file);
    if (before == fingerprint) return;
    if (before) {
      print_stderr("zf-tune publish: this node was of class {} and is of class {}, which has a plan too\n",
                   *before, fingerprint);
    }
    publish_text_file(file, fingerprint + "\n");
  } catch (const Error& error) {
    print_stderr("zf-tune publish: the node's class is not remembered: {}\n", error.what());
  }
}

Exit run(const Arguments& arguments) {
  const std::filesystem::path folder = required(arguments, "plans");
  const std::filesystem::path target = std::filesystem::absolute(required(arguments, "to"));
  MachineSource source = machine_source(arguments);
  // Looking for GPUs can hang on a broken driver, and a prolog has a second: the class does not depend on
  // them.
  source.with_io = false;
  const MachineClass node = machine_class_of(read_machine(source).topology);
  const auto memory = arguments.text("remember");
  auto former = memory && !plan_of_class(node.fingerprint, folder)
                    ? remembered_plan(std::filesystem::absolute(*memory), folder)
                    : std::nullopt;
  const Plan plan = former ? *std::move(former) : present_plan(node, folder);
  // Printed anew: what jobs read has our form, whatever whoever can write in the folder put there.
  publish_text_file(target, print_plan(plan));
  const bool is_former = plan.machine.fingerprint != node.fingerprint;
  fmt::print("{}: the plan of class {}{}\n", target.string(), plan.machine.fingerprint,
             is_former ? ", of which this node was" : "");
  if (memory && !is_former) remember(node.fingerprint, std::filesystem::absolute(*memory));
  return Exit::done;
}

}  // namespace

Command publish_command() { return {spec(), run}; }

}  // namespace zf
