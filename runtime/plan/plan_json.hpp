// Prints and parses a plan as JSON.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "plan/plan.hpp"

namespace zf {

/// Returns JSON that is indented by two spaces and ends with a newline. Parsing it gives the same plan again.
std::string print_plan(const Plan& plan);

/// Returns 8 hex digits that differ for two plans that differ in anything.
std::string plan_id(const Plan& plan);

/// Parses a plan and checks it (also by plan_check.hpp). `name` is the file, for messages. Throws
/// Error(usage) "name: ranks[0].optimizer.cpus: …; next" if the text is truncated, a type is wrong, a field
/// is missing, the schema version is unknown, or an invariant is broken.
Plan parse_plan(std::string_view text, std::string_view name);

/// Reads a file and parses it in the same way. Throws Error(usage). If there is no such file, says how to
/// make a plan.
Plan load_plan(const std::filesystem::path& path);

/// Checks the plan, then writes it atomically. Throws Error(runtime_error) with the path. Calls `before` when
/// all of it is in a temporary file and not yet at `path`; if that throws, nothing is changed at `path`.
void save_plan(const Plan& plan, const std::filesystem::path& path, const std::function<void()>& before = {});

}  // namespace zf
