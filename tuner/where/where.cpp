#include "where/where.hpp"

#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/format.hpp"
#include "launchers/local_rank.hpp"
#include "machine/fingerprint.hpp"
#include "os/affinity.hpp"
#include "plan/plan_json.hpp"
#include "planning/class_plan.hpp"
#include "where/asker.hpp"

namespace zf {
namespace {

/// Returns the plan of this node's class; nothing if the folder has none.
std::optional<ClassPlan> class_plan(const std::filesystem::path& folder) {
  std::error_code unknown;
  if (folder.empty() || !std::filesystem::is_directory(folder, unknown)) return std::nullopt;
  try {
    const Machine node = read_machine(source_of_files());
    return find_class_plan(machine_class_of(node.topology), gpu_places_of(node.topology), folder,
                           std::nullopt);
  } catch (const Error& error) {
    throw Error(error.exit(), format_text("{} has plans, and which of them is this node's is not known: {}",
                                          folder.string(), error.what()));
  }
}

}  // namespace

Where find_where(const WhereRequest& request, const Environment& environment) {
  Asker asker{request, without_ranks(environment), thread_affinity(), environment};
  if (request.mask_of != MaskOf::job) widest_thread_affinity();
  asker.machine = read_with_gpus(asker.environment);
  std::filesystem::path path = request.plan_path;
  std::optional<Plan> plan;
  if (path.empty()) {
    if (auto found = class_plan(request.plans)) {
      path = found->path;
      plan = std::move(found->plan);
    }
  } else {
    plan = load_plan(path);
  }
  Where where = plan ? by_plan(asker, std::filesystem::absolute(path).string(), *plan) : without_plan(asker);
  auto& set = where.launch.set;
  if (!where.is_file) set.erase("ZF_PLAN");
  try {
    set["ZF_RANK_FROM"] = launchers_rank(environment);
  } catch (const Error&) {  // malformed; the caller has given the rank
    set["ZF_RANK_FROM"] = "";
  }
  return where;
}

}  // namespace zf
