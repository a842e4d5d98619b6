// Runs the user's command on our own terminal, as a shell would.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "ipc/child.hpp"

namespace zf {

/// A command that was asked to end gets this long before it is killed.
inline constexpr Nanoseconds kCommandPatience = 10 * kSecondNs;

/// Where the standard output of a command goes.
enum class CommandOutput { to_stdout, to_stderr };

struct AttachedEnd {
  ExitStatus status;  ///< of the command
  int interrupt = 0;  ///< SIGINT, SIGTERM or SIGHUP if one came to this process meanwhile, else 0
};

/// Runs `command` (found on PATH) with our standard streams, or with stderr in the place of stdout, in our
/// process group, and with `variables` added to the environment. Returns how it ended: a command that cannot
/// be started ends with status 126 or 127, and has said why. Calls `stop` ten times a second until it returns
/// true; the command then gets SIGTERM, and SIGKILL if it is still there after `patience`. Meanwhile this
/// process survives SIGINT and SIGQUIT, which a terminal sends to both, and passes SIGTERM, SIGHUP, SIGUSR1
/// and SIGUSR2 on. The command dies with this process. Call it before threads are started.
AttachedEnd run_attached(const std::vector<std::string>& command,
                         const std::map<std::string, std::string>& variables,
                         const std::function<bool()>& stop, Nanoseconds patience = kCommandPatience,
                         CommandOutput output = CommandOutput::to_stdout);

}  // namespace zf
