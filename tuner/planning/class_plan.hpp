// Finds the plan of a node's class in a folder with one plan per class (CLASS.json).
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "plan/plan.hpp"

namespace zf {

struct ClassPlan {
  Plan plan;
  std::filesystem::path path;  ///< the file that the plan was read from
  bool is_former = false;      ///< the plan is of the class that the node was of, and is no more
};

/// Returns the plan of the node's class. If that class has no plan, the class in the file `memory` counts:
/// the one that the node last had a plan of. Throws Error(stale_plan) if no class has a plan or a file's plan
/// is of another class, and Error(runtime_error) with the path if a file cannot be read.
ClassPlan find_class_plan(const MachineClass& node, const std::filesystem::path& folder,
                          const std::optional<std::filesystem::path>& memory);

/// Writes the class to the file. Returns a note if it has changed or cannot be written, else nothing: the
/// plan is published in any case.
std::string remember_class(const std::string& fingerprint, const std::filesystem::path& file);

}  // namespace zf
