// The environment variables that tell a command and the runtime inside it of its rank. Pure.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "plan/process_binding.hpp"

namespace zf {

/// Returns the environment variables for the command and the runtime inside it: one rank of the plan at an
/// absolute path. Those of kThreadVariables are the right ones for the CPUs of process_cpus(). Throws as
/// print_binding() does.
std::map<std::string, std::string> variables_of(const ProcessBinding& binding,
                                                const std::filesystem::path& plan_path);

}  // namespace zf
