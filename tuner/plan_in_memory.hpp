// A plan that exists for one process and its children alone.
#pragma once

#include <filesystem>

#include "plan/plan.hpp"

namespace zf {

/// A file without a name that holds the plan, open in this process and in what it becomes; its path works for
/// its children as well, for as long as this process lives, and nothing is left to clean up. Throws
/// Error(runtime_error).
std::filesystem::path plan_in_memory(const Plan& plan);

}  // namespace zf
