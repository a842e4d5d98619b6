// Runs the user's command, listens to what it says, and leaves nothing of it behind.
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
    ended,    ///< by itself
    late,     ///< ended by us: the deadline had passed
    stopped,  ///< ended by us: `stop` said so
  };
  Why why = Why::ended;
  ExitStatus status;
};

/// Runs `command` (found on PATH) in a process group of its own. Its standard input is empty. Its standard
/// output and error go together, line by line, to `on_line`; of a line at most 64 KiB. `stop` is asked ten
/// times a second. At the deadline (of now_ns()), or when stopped, the group gets SIGTERM, and SIGKILL five
/// seconds later. When the command has ended, what it left running in its group is killed, so that the next
/// run has the machine for itself. The command dies with us.
/// Throws Error(runtime_error) if it cannot be started, and what the functions throw (the group is then
/// killed). Call it before threads are started.
CommandEnd run_command(const std::vector<std::string>& command, Nanoseconds deadline_ns,
                       const std::function<bool()>& stop,
                       const std::function<void(std::string_view)>& on_line);

}  // namespace zf
