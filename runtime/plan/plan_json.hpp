// A plan as text. The only file of the runtime that knows nlohmann_json.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "plan/plan.hpp"

namespace zf {

/// Two-space indented JSON that ends with a newline. parse_plan(print_plan(p)) equals p.
std::string print_plan(const Plan& plan);

/// Reads and checks a plan (plan_check.hpp included). `name` is the file, for messages. Throws Error(usage)
/// "name: ranks[0].optimizer.cpus: …; next": truncated, wrong type, missing field, unknown schema version,
/// a broken invariant.
Plan parse_plan(std::string_view text, std::string_view name);

/// parse_plan of a file. Throws Error(usage).
Plan load_plan(const std::filesystem::path& path);

/// Checks, then writes atomically. Throws Error(runtime_error) with the path.
void save_plan(const Plan& plan, const std::filesystem::path& path);

}  // namespace zf
