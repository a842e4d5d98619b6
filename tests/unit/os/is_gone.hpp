// Tells whether a process has ended that need not be a child of this one.
#pragma once

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "base/file_descriptor.hpp"

namespace zf {

/// Returns whether a process has ended. Waits up to ten seconds for that. A process that was not reaped
/// counts as ended: some init processes reap late.
inline bool is_gone(pid_t pid) {
  const std::string stat = "/proc/" + std::to_string(pid) + "/stat";
  for (const Nanoseconds limit = now_ns() + 10 * kSecondNs; now_ns() < limit; ::usleep(1000)) {
    std::array<char, 256> text{};
    const FileDescriptor file(::open(stat.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.valid() || ::read(file.get(), text.data(), text.size() - 1) <= 0) return true;
    if (std::string_view(text.data()).find(") Z ") != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace zf
