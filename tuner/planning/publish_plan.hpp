// The plan of a node's class, copied to where jobs find it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "plan/plan.hpp"

namespace zf {

struct PublishedPlan {
  std::string fingerprint;  ///< of the class whose plan it is
  bool is_former = false;   ///< the node was of that class and is of another one now
};

/// Copies the plan of the node's class from `folder` (CLASS.json) to `target`. If that class has no plan, the
/// class in the file `memory` counts, which the node last had a plan of; `memory` is kept up to date, and a
/// note on stderr says if that fails. The plan is printed anew, so that jobs read our own form, whatever
/// somebody who can write in the folder put there. Throws Error(stale_plan) if no class has a plan or a
/// file's plan is of another class, and Error(runtime_error) with the path if a file cannot be read or
/// written.
PublishedPlan publish_plan(const MachineClass& node, const std::filesystem::path& folder,
                           const std::filesystem::path& target,
                           const std::optional<std::filesystem::path>& memory);

}  // namespace zf
