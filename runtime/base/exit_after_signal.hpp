// The exit code of a command that SIGINT or SIGTERM has ended.
#pragma once

#include "base/error.hpp"

namespace zf {

/// Returns 128 and the signal, which is what a shell gives for a command that the signal has killed: 130 for
/// SIGINT, 143 for SIGTERM. Returns done if no signal came (0).
constexpr Exit exit_after_signal(int signal) {
  constexpr int kSignalled = 128;
  return signal == 0 ? Exit::done : static_cast<Exit>(kSignalled + signal);
}

}  // namespace zf
