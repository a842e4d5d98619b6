#include "planning/class_plan.hpp"

#include "base/error.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "machine/fingerprint.hpp"
#include "os/publish.hpp"
#include "plan/plan_json.hpp"

namespace zf {
namespace {

/// The folder with the plans, and the places of this node's GPUs.
struct Plans {
  const std::filesystem::path& folder;
  const std::optional<GpuPlaces>& gpus;
};

bool is_there(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::status(path, error).type() != std::filesystem::file_type::not_found;
}

/// Returns the first "CLASS+….json" by name; nothing if there is none.
std::optional<std::filesystem::path> first_of_class(const std::string& fingerprint,
                                                    const std::filesystem::path& folder) {
  std::optional<std::filesystem::path> first;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(fingerprint + "+") || !name.ends_with(".json")) continue;
    if (!first || entry->path() < *first) first = entry->path();
  }
  return first;
}

/// Returns the file with the plan of this class; that of CLASS.json if there is none.
std::filesystem::path path_of_class(const std::string& fingerprint, const Plans& plans) {
  if (plans.gpus) {
    const auto own = plans.folder / format_text("{}+{}.json", fingerprint, plans.gpus->fingerprint);
    if (is_there(own)) return own;
  }
  const auto any = plans.folder / (fingerprint + ".json");
  return is_there(any) ? any : first_of_class(fingerprint, plans.folder).value_or(any);
}

/// Returns the plan of this class; nothing if the folder has none.
std::optional<Plan> plan_of_class(const std::string& fingerprint, const Plans& plans) {
  const std::filesystem::path path = path_of_class(fingerprint, plans);
  return is_there(path) ? std::optional(load_plan(path)) : std::nullopt;
}

Plan present_plan(const MachineClass& node, const Plans& plans) {
  std::optional<Plan> plan = plan_of_class(node.fingerprint, plans);
  const std::string path = path_of_class(node.fingerprint, plans).string();
  if (!plan) {
    throw Error(Exit::stale_plan,
                format_text("{}: no plan for this node's class ({}; {}, {}, {})", path, node.model,
                            print_count(node.packages, "package"), print_count(node.numa_nodes, "NUMA node"),
                            print_count(node.cores, "core")),
                "tune one node of the class and put its plan there");
  }
  const auto differences = class_differences(plan->machine, node);
  if (!differences.empty()) {
    throw Error(Exit::stale_plan, format_text("{}: {}", path, join_text(differences, "; ")),
                "the file's name is not the class of its plan: tune one node of the class again");
  }
  return *std::move(plan);
}

/// Returns the remembered class; nothing if none is remembered. Refuses text that is not a fingerprint,
/// because the fingerprint becomes a file name.
std::optional<std::string> remembered_class(const std::filesystem::path& file) {
  auto text = read_published_file(file);
  if (!text) return {};
  if (text->ends_with('\n')) text->pop_back();
  if (text->size() == 16 && text->find_first_not_of("0123456789abcdef") == std::string::npos) return text;
  throw Error(Exit::runtime_error, format_text("{}: the file does not hold a class of nodes", file.string()),
              "remove the file");
}

/// Returns the plan of the class of which the node last had a plan; nothing if that class has no plan now.
std::optional<Plan> remembered_plan(const std::filesystem::path& file, const Plans& plans) {
  const auto fingerprint = remembered_class(file);
  return fingerprint ? plan_of_class(*fingerprint, plans) : std::nullopt;
}

}  // namespace

ClassPlan find_class_plan(const MachineClass& node, const std::optional<GpuPlaces>& gpus,
                          const std::filesystem::path& folder,
                          const std::optional<std::filesystem::path>& memory) {
  const Plans plans{folder, gpus};
  auto former =
      memory && !plan_of_class(node.fingerprint, plans) ? remembered_plan(*memory, plans) : std::nullopt;
  ClassPlan found{former ? *std::move(former) : present_plan(node, plans), {}, false};
  const std::string& fingerprint = found.plan.machine.fingerprint;
  found.path = path_of_class(fingerprint, plans);
  found.is_former = fingerprint != node.fingerprint;
  return found;
}

std::string remember_class(const std::string& fingerprint, const std::filesystem::path& file) {
  try {
    const auto before = remembered_class(file);
    if (before == fingerprint) return "";
    publish_text_file(file, fingerprint + "\n", Readers::owner);
    if (!before) return "";
    return format_text("this node was of class {} and is of class {}, which has a plan too", *before,
                       fingerprint);
  } catch (const Error& error) {
    return format_text("the node's class is not remembered: {}", error.what());
  }
}

}  // namespace zf
