// Runs the user's command, passes on its output line by line, and leaves no process of it behind.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "ipc/child.hpp"

namespace zf {

struct CommandEnd {
  enum class Why {
    ended,    ///< the command ended by itself
    late,     ///< we ended it because the deadline had passed
    stopped,  ///< we ended it because `stop` returned true
  };
  Why why = Why::ended;
  ExitStatus status;
};

/// Runs `command` (found on PATH) in a process group of its own. Its standard input is empty. Calls
/// `on_line` with each line of its standard output and error, cut at 64 KiB. Asks `stop` ten times a second.
/// At the deadline (of now_ns()), or when stopped, sends SIGTERM to the group, and SIGKILL five seconds
/// later. When the command has ended, kills what it left running in its group, so that the next run has the
/// machine for itself. The command dies with this process. Throws Error(runtime_error) if the command cannot
/// be started, and what the two functions throw; the group is killed then too. Call it before threads are
/// started.
CommandEnd run_command(const std::vector<std::string>& command, Nanoseconds deadline_ns,
                       const std::function<bool()>& stop,
                       const std::function<void(std::string_view)>& on_line);

}  // namespace zf
