// Finds the plan of a node's class in a folder with plans of classes: CLASS.json, or CLASS+GPUS.json for one
// way of placing GPUs (GpuPlaces::fingerprint).
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "plan/plan.hpp"

namespace zf {

struct ClassPlan {
  Plan plan;
  std::filesystem::path path;  ///< the file that the plan was read from
  bool is_former = false;      ///< the plan is of the class that the node was of, and is no more
};

/// Returns the plan of the node's class: that of its GPUs' places, else the one for any, else the first by
/// name that was made for other places. If that class has no plan, the class in the file `memory` counts: the
/// one that the node last had a plan of. Returns nothing if no class has a plan. Throws Error(stale_plan) if
/// a file's plan is of another class, and Error(usage or runtime_error) with the path if a file cannot be
/// read.
std::optional<ClassPlan> find_class_plan(const MachineClass& node, const std::optional<GpuPlaces>& gpus,
                                         const std::filesystem::path& folder,
                                         const std::optional<std::filesystem::path>& memory);

/// Returns the error of a folder without such a plan.
Error no_class_plan(const MachineClass& node, const std::filesystem::path& folder);

/// Writes the class to the file. Returns a note if it has changed or cannot be written, else nothing: the
/// plan is published in any case.
std::string remember_class(const std::string& fingerprint, const std::filesystem::path& file);

}  // namespace zf
