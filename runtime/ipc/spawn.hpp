// Starts a program as a child process, without fork.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ipc/child.hpp"

namespace zf {

/// A descriptor of ours and the number under which the child finds it.
struct InheritedFd {
  int fd;
  int number;
};

/// Starts a program with posix_spawn (never fork: the caller may hold a CUDA context).
/// The child gets stdin and stdout on /dev/null, our stderr, `fds`, and no other descriptor. `fds` are
/// numbered 3, 4, … without a gap. It starts with default signal actions and no signal blocked, and with the
/// calling thread's CPU mask and memory policy. Its environment is `environment` ("NAME=value" each); if
/// absent it is ours, which no other thread may change during the call. Throws Error(runtime_error) with the
/// path.
Child spawn(const std::filesystem::path& program, const std::vector<std::string>& arguments,
            const std::vector<InheritedFd>& fds,
            const std::optional<std::vector<std::string>>& environment = std::nullopt);

}  // namespace zf
