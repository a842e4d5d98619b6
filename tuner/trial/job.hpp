// Runs the user's command, listens to what it says, and leaves nothing of it behind.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "ipc/child.hpp"

namespace zf {

struct JobEnd {
  enum class Why {
    ended,    ///< by itself
    late,     ///< ended by us: the deadline had passed
    stopped,  ///< ended by us: `stop` said so
  };
  Why why = Why::ended;
  ExitStatus ending;
};

/// Runs `command` (found on PATH) in a process group of its own, standard input empty, standard output and
/// error together going line by line to `on_line` (64 KiB of a line at the most). `stop` is asked ten times a
/// second. At the deadline (of now_ns()), or when stopped, the group gets SIGTERM, and SIGKILL five seconds
/// later. When the command has ended, what it left running in its group is killed: the next run should have
/// the machine for itself. It dies with us. Throws Error(runtime_error) when it cannot be started, and what
/// the functions throw (then the group is killed). Call it before threads are started.
JobEnd run_job(const std::vector<std::string>& command, Nanoseconds deadline_ns,
               const std::function<bool()>& stop, const std::function<void(std::string_view)>& on_line);

}  // namespace zf
