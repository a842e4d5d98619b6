#include "planning/class_plan.hpp"

#include <algorithm>
#include <system_error>
#include <vector>

#include "base/format.hpp"
#include "base/text.hpp"
#include "machine/fingerprint.hpp"
#include "os/file.hpp"
#include "os/publish.hpp"
#include "plan/plan_json.hpp"

namespace zf {
namespace {

/// The folder with the plans, and the places of this node's GPUs.
struct Plans {
  const std::filesystem::path& folder;
  const std::optional<GpuPlaces>& gpus;
};

/// Returns the files that may have the plan of this class, the best one first.
std::vector<std::filesystem::path> paths_of_class(const std::string& fingerprint, const Plans& plans) {
  std::vector<std::filesystem::path> of_other_places;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(plans.folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(fingerprint + "+") && name.ends_with(".json"))
      of_other_places.push_back(entry->path());
  }
  std::ranges::sort(of_other_places);
  std::vector<std::filesystem::path> paths;
  if (plans.gpus)
    paths.push_back(plans.folder / format_text("{}+{}.json", fingerprint, plans.gpus->fingerprint));
  paths.push_back(plans.folder / (fingerprint + ".json"));
  paths.insert(paths.end(), of_other_places.begin(), of_other_places.end());
  return paths;
}

/// Returns the plan of this class; nothing if the folder has none. Opens each file once, because a plan may
/// be replaced meanwhile.
std::optional<ClassPlan> plan_of_class(const std::string& fingerprint, const Plans& plans) {
  for (const std::filesystem::path& path : paths_of_class(fingerprint, plans)) {
    if (const auto text = read_text_file_if_any(path))
      return ClassPlan{parse_plan(*text, path.string()), path};
  }
  return std::nullopt;
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

}  // namespace

std::optional<ClassPlan> find_class_plan(const MachineClass& node, const std::optional<GpuPlaces>& gpus,
                                         const std::filesystem::path& folder,
                                         const std::optional<std::filesystem::path>& memory) {
  const Plans plans{folder, gpus};
  if (auto present = plan_of_class(node.fingerprint, plans)) {
    const auto differences = class_differences(present->plan.machine, node);
    if (differences.empty()) return present;
    throw Error(Exit::stale_plan, format_text("{}: {}", present->path.string(), join_text(differences, "; ")),
                "the file's name is not the class of its plan: tune one node of the class again");
  }
  const auto former = memory ? remembered_class(*memory) : std::nullopt;
  auto found = former ? plan_of_class(*former, plans) : std::nullopt;
  if (found) found->is_former = found->plan.machine.fingerprint != node.fingerprint;
  return found;
}

Error no_class_plan(const MachineClass& node, const std::filesystem::path& folder) {
  return {Exit::stale_plan,
          format_text("{}: no plan for this node's class ({}; {}, {}, {})",
                      (folder / (node.fingerprint + ".json")).string(), node.model,
                      print_count(node.packages, "package"), print_count(node.numa_nodes, "NUMA node"),
                      print_count(node.cores, "core")),
          "tune one node of the class and put its plan there"};
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
