// A child process: watched through a pidfd, signalled, and reaped.
#pragma once

#include <sys/types.h>
#include <sys/wait.h>

#include <functional>
#include <optional>
#include <string>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/file_descriptor.hpp"

namespace zf {

/// The exit code or the signal with which a process ended. Both members are absent if another thread reaped
/// it (a SIGCHLD handler, or SIGCHLD ignored).
struct ExitStatus {
  std::optional<int> code;
  std::optional<int> signal;
};

/// Returns "was killed by signal 9 (Killed)", "ended with status 1", ...
std::string describe(const ExitStatus& status);

/// The processes that signals reach: the child alone, or every process of the process group that the child
/// leads.
enum class Reach { process, group };

/// Owns one child of this process. Move-only. Not thread-safe, except has_ended().
class Child {
 public:
  /// Takes over a child that this process has forked or spawned and that no other thread reaps. With
  /// Reach::group the child must lead a process group of its own; adopt() calls setpgid() for it, and the
  /// child should do the same before it execs, so that neither side is too early.
  /// Throws Error(runtime_error) if no pidfd can be had; the child is then killed and reaped. Where the
  /// kernel or a sandbox has no pidfds at all, the child is watched by its number, which stays its own until
  /// it is reaped; then pidfd() throws.
  static Child adopt(pid_t pid, Reach reach = Reach::process);

  Child(Child&&) noexcept;
  Child& operator=(Child&&) = delete;
  /// Kills and reaps the child unless that was done. Gives up after 10 s (see discard()).
  ~Child();

  pid_t pid() const { return pid_; }
  /// Tells whether the child has ended, without waiting. Both throw lost_pidfd() if the pidfd was closed by
  /// another thread: then nothing is known about the child.
  bool has_ended() const;
  /// Waits until the child has ended. Returns false at the deadline (a point of now_ns()).
  bool wait_until(Nanoseconds deadline) const;
  /// Returns a copy of the descriptor that watches the child; it is readable once the child has ended.
  /// Throws Error(runtime_error).
  FileDescriptor pidfd() const;

  /// Sends a signal to the child, or to its whole group (Reach). Does nothing once the child is reaped. With
  /// Reach::group the signal still reaches the rest of the group after the child itself has ended, and it
  /// cannot reach a stranger: the number of a group is not given out again while its leader is unreaped.
  void signal(int number) const;
  /// Sends SIGKILL.
  void kill() const;

  /// Collects the exit status, so that no zombie is left. With Reach::group, what is left of the group is
  /// killed first. Later calls return the same answer. If another thread reaped the child
  /// (SIGCHLD ignored), the rest of its group is left alone. Waits up to 10 s for a debugger that still holds
  /// the child (so does LeakSanitizer at the end of a program). Precondition: has_ended().
  const ExitStatus& reap();

  /// Kills the child, and reaps it if it has ended by the deadline. Returns whether it is reaped, by
  /// whomever. If not (it is frozen, or a debugger holds it), this may be called again. Throws lost_pidfd().
  bool end_by(Nanoseconds deadline);

  /// Kills the child, waits until the deadline for its end, and reaps it. A child that is still there then
  /// (stuck inside a driver) is left alone for good: the destructor does not wait for it again. Returns
  /// whether it was reaped.
  bool discard(Nanoseconds deadline) noexcept;

 private:
  Child(pid_t pid, FileDescriptor pidfd, Reach reach);
  void signal_group(int number) const;
  bool wait_by_number(Nanoseconds deadline) const;
  /// Keeps what waitid() said; si_pid is 0 if it said nothing.
  void take_status(const siginfo_t& info);
  idtype_t id_type() const;
  id_t id() const;

  pid_t pid_ = -1;
  FileDescriptor pidfd_;
  Reach reach_ = Reach::process;
  std::optional<ExitStatus> status_;
};

/// Forks a child that runs `work` and exits with what it returns, or with 1 if it throws. The child gets
/// SIGKILL when the calling thread ends. With Reach::group it leads a process group of its own, out of reach
/// of a terminal's Ctrl-C. Everything else, such as signal actions and open descriptors, is inherited.
/// Call it before threads are started: of all threads, a fork copies only the calling one.
/// Throws Error(runtime_error) "what: …" if no child can be made.
Child fork_child(const std::function<int()>& work, Reach reach, std::string_view what);

/// Returns the error that says that the pidfd of a process was closed or replaced by another file.
Error lost_pidfd(pid_t pid);

/// Opens a pidfd, close-on-exec. Throws Error(runtime_error) if there is no such process, or if the kernel or
/// a sandbox refuses: then the text says what is needed.
FileDescriptor open_pidfd(pid_t pid);

}  // namespace zf
