// A process that this one starts, watches through a pidfd, and collects.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/file_descriptor.hpp"

namespace zf {

/// How a process ended.
struct Ending {
  std::optional<int> exit_status;
  std::optional<int> signal;
  /// Both absent: someone else collected it (a SIGCHLD handler, or SIGCHLD ignored).
};

/// "was killed by signal 9 (Killed)", "ended with status 1", ...
std::string text_of(const Ending& ending);

/// A descriptor of ours and the number under which the child finds it.
struct InheritedFd {
  int fd;
  int number;
};

/// Move-only. Not thread-safe, except has_ended().
class ChildProcess {
 public:
  /// posix_spawn (never fork: the caller may hold a CUDA context). The child gets stdin and stdout on
  /// /dev/null, our stderr, `fds`, and no other descriptor; default signal actions, nothing blocked; the
  /// calling thread's CPU mask and memory policy; `environment` ("NAME=value"), absent: ours, which then
  /// nobody may change meanwhile. `fds` are numbered 3, 4, … without a gap. Throws Error(runtime_error) with
  /// the path.
  static ChildProcess spawn(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                            const std::vector<InheritedFd>& fds,
                            const std::optional<std::vector<std::string>>& environment = std::nullopt);

  ChildProcess(ChildProcess&&) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  /// Kills and collects it if that was not done.
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  /// One look, no waiting. Both throw lost_pidfd() when that is so: then nothing is known.
  bool has_ended() const;
  /// False at the deadline (a point of now_ns()).
  bool wait_for_end(Nanoseconds deadline) const;
  /// A copy of the descriptor by which it is watched: readable when it has ended. Throws
  /// Error(runtime_error).
  FileDescriptor pidfd() const;
  /// SIGKILL. Nothing if it has ended.
  void kill() const;
  /// Collects it (no zombie is left); the same answer ever after. Precondition: has_ended().
  const Ending& ending();

 private:
  ChildProcess(pid_t pid, FileDescriptor pidfd);

  pid_t pid_ = -1;
  FileDescriptor pidfd_;
  std::optional<Ending> ending_;
};

/// The pidfd of a process turned out to be closed, or another file.
Error lost_pidfd(pid_t pid);

/// A pidfd, close-on-exec. Throws Error(runtime_error) if there is no such process.
FileDescriptor open_pidfd(pid_t pid);

}  // namespace zf
