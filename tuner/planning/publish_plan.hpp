// Copies the plan of a node's class to where jobs find it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "plan/plan.hpp"

namespace zf {

struct PublishedPlan {
  std::string fingerprint;  ///< the class of the plan
  bool is_former = false;   ///< true: the node was of that class and is now of another one
};

/// Copies the plan of the node's class from `folder` (CLASS.json) to `target`. If that class has no plan, it
/// uses the class in the file `memory`: the class of which the node last had a plan. It keeps `memory` up to
/// date, and prints a note on stderr if that fails. The plan is read and printed again, so that jobs read our
/// own form whatever a user who can write to the folder put there. Throws Error(stale_plan) if no class has a
/// plan or a file's plan is of another class, and Error(runtime_error) with the path if a file cannot be read
/// or written.
PublishedPlan publish_plan(const MachineClass& node, const std::filesystem::path& folder,
                           const std::filesystem::path& target,
                           const std::optional<std::filesystem::path>& memory);

}  // namespace zf
