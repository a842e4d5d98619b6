// Replaces this process by a command.
#pragma once

#include <string>
#include <vector>

namespace zf {

/// Replaces this process by the command; its first word is looked up in PATH. Throws Error(not_found) or
/// Error(cannot_execute) if that fails. Precondition: the command has a word.
[[noreturn]] void exec_or_throw(const std::vector<std::string>& command);

/// Does the same in a child. If it fails, prints the error and returns the exit code that a shell would give:
/// 127 if there is no such program, otherwise 126.
int exec_or_exit_code(const std::vector<std::string>& command);

}  // namespace zf
