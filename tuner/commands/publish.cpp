#include <filesystem>
#include <optional>

#include "base/format.hpp"
#include "base/text.hpp"
#include "commands/commands.hpp"
#include "commands/results.hpp"
#include "commands/shared_arguments.hpp"
#include "machine/fingerprint.hpp"
#include "os/publish.hpp"
#include "os/standard_streams.hpp"
#include "os/write_target.hpp"
#include "plan/plan_json.hpp"
#include "planning/class_plan.hpp"
#include "planning/node_facts.hpp"
#include "planning/plan_differences.hpp"
#include "planning/retarget.hpp"

namespace zf {
namespace {

CommandSpec publish_spec() {
  return {
      "publish",
      "publish {--plans FOLDER | --plan FILE} {--to FILE | --dry-run} [--remember FILE] [--no-gpus]",
      "Copies the plan for this node's class to the file where jobs look for it, with homes for this node's "
      "own "
      "GPUs. A Slurm prolog runs it.",
      with_machine_options({
          {"plans", 0, "FOLDER",
           "folder with one plan per class of nodes, named CLASS.json; CLASS is the fingerprint that "
           "zf-tune probe shows. CLASS+GPUS.json comes first, where GPUS is that of the GPUs' places "
           "(e.g. /etc/zf-tune/plans)"},
          plan_option("the plan to copy, instead of one from a folder (e.g. plan.json)"),
          {"to", 0, "FILE",
           "file to write, in a folder that no other user may write to, - for standard output "
           "(e.g. /run/zf-tune/4711.json)"},
          {"remember", 0, "FILE",
           "file that remembers the node's class. If the class has changed and the new one has no plan, "
           "the plan of the remembered class is copied, so that zf-tune check names what changed "
           "(default: none; e.g. /var/lib/zf-tune/class)"},
          {"dry-run", 0, "",
           "print the path of the plan that this node takes, if there is one, and write nothing"},
          {"no-gpus", 0, "",
           "do not look where this node has its GPUs (default: a plan of other places gets homes near this "
           "node's own GPUs)"},
      })};
}

std::string required(const Arguments& arguments, const std::string& option) {
  const auto value = arguments.text(option);
  if (!value || value->empty())
    throw Error(Exit::usage, format_text("zf-tune publish: --{} is missing", option),
                "see zf-tune publish --help");
  return *value;
}

/// Returns the plan of --plan, else that of the node's class in --plans; nothing if there is none.
std::optional<ClassPlan> find_plan(const Arguments& arguments, const Machine& machine, NodeGpus gpus,
                                   const std::optional<std::filesystem::path>& memory) {
  if (arguments.has("plan")) {
    const std::filesystem::path path = std::filesystem::absolute(required(arguments, "plan"));
    ClassPlan named{load_plan(path), path};
    need_class_of(named.plan, machine.topology);
    return named;
  }
  const auto places = gpus == NodeGpus::looked_at ? gpu_places_of(machine.topology) : std::nullopt;
  return find_class_plan(machine_class_of(machine.topology), places, required(arguments, "plans"), memory);
}

Exit publish_run(const Arguments& arguments) {
  if (!arguments.has("plan")) required(arguments, "plans");
  const std::string to = arguments.has("dry-run") ? "-" : required(arguments, "to");
  const bool prints = to == "-" || write_target(to).is_stdout;
  const std::filesystem::path target = std::filesystem::absolute(to);
  MachineSource source = machine_source(arguments);
  // Asking GPU drivers can hang, and a prolog has a second. PCI alone says where the GPUs are.
  source.with_io = false;
  std::optional<std::filesystem::path> memory;
  if (arguments.text("remember") == "-")
    throw Error(Exit::usage, "zf-tune publish: --remember -: the class is read again at the next start",
                "name a file");
  if (arguments.has("remember")) memory = std::filesystem::absolute(required(arguments, "remember"));
  source.keep_isolated = true;  // what root may use here says nothing about jobs
  const Machine machine = read_machine(source);
  const NodeGpus gpus = arguments.has("no-gpus") ? NodeGpus::left_out : NodeGpus::looked_at;
  const auto taken = find_plan(arguments, machine, gpus, memory);
  if (arguments.has("dry-run")) {
    if (taken) print_stdout("{}\n", taken->path.string());
    return Exit::done;
  }
  if (!taken) throw no_class_plan(machine_class_of(machine.topology), required(arguments, "plans"));
  const ClassPlan& found = *taken;
  std::string why_not;
  const Plan plan = found.is_former ? found.plan : with_facts_of_node(found.plan, machine, gpus, &why_not);
  // The plan is printed anew, so jobs read our form, whatever another writer of the folder put there.
  prints ? print_stdout_text(print_plan(plan)) : publish_text_file(target, print_plan(plan));
  const std::string line = format_text(
      "{}: the plan of class {}{}", prints ? "standard output" : target.string(),
      found.plan.machine.fingerprint, found.is_former ? ", which was the class of this node before" : "");
  prints ? print_stderr("{}\n", one_line(line)) : print_result_line(line);
  flush_stdout();  // notes stand below
  if (!why_not.empty()) print_stderr("zf-tune publish: {}\n", one_line(why_not));
  if (memory && !found.is_former) {
    const std::string note = remember_class(found.plan.machine.fingerprint, *memory);
    if (!note.empty()) print_stderr("zf-tune publish: {}\n", note);
  }
  return Exit::done;
}

}  // namespace

Command publish_command() { return {publish_spec(), publish_run}; }

}  // namespace zf
