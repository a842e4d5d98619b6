#include "ipc/child.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/format.hpp"

namespace zf {
namespace {

constexpr idtype_t kPidfd = static_cast<idtype_t>(3);  // P_PIDFD, not in every libc's headers

/// The longest time that a process may take to be gone after SIGKILL.
constexpr Nanoseconds kGoneNs = 10 * kSecondNs;

/// Kills and reaps a child that cannot be watched. It is ours and not reaped, so its number is still its own.
void discard_by_number(pid_t pid) {
  ::kill(pid, SIGKILL);
  const Nanoseconds deadline = now_ns() + kGoneNs;
  while (waitpid(pid, nullptr, WNOHANG) == 0 && now_ns() < deadline) usleep(1000);
}

/// Returns whether this kernel, and what filters its calls, has pidfds. Linux before 5.3 and some
/// sandboxes have none.
bool has_pidfds() {
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0));
  if (fd >= 0) close(fd);
  return fd >= 0 || (errno != ENOSYS && errno != EPERM);
}

/// Runs the whole life of a forked child.
[[noreturn]] void run_forked(const std::function<int()>& work, Reach reach, pid_t parent) noexcept {
  if (reach == Reach::group) ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // the parent died before the line above
  int code = 1;
  try {
    code = work();
  } catch (...) {
    // The parent sees the exit code.
  }
  ::_exit(code);
}

}  // namespace

std::string describe(const ExitStatus& status) {
  if (status.signal) {
    const char* const name = sigdescr_np(*status.signal);
    return format_text("was killed by signal {} ({})", *status.signal, name != nullptr ? name : "?");
  }
  if (status.code) return format_text("ended with status {}", *status.code);
  return "has ended, and other code has collected its exit status (is SIGCHLD ignored?)";
}

Error lost_pidfd(pid_t pid) {
  return {Exit::runtime_error,
          format_text("the descriptor by which process {} is watched is no longer ours", pid),
          "something in this program closes descriptors that it did not open"};
}

FileDescriptor open_pidfd(pid_t pid) {
  // glibc has a wrapper from 2.36 on only.
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (fd >= 0) return FileDescriptor(fd);
  const int error = errno;
  throw_errno(error, format_text("pidfd_open of process {}", pid),
              error == ENOSYS || error == EPERM ? "the native optimizer needs Linux 5.3 or later, and a "
                                                  "sandbox that allows pidfd_open: allow it in "
                                                  "the container's seccomp profile"
                                                : descriptor_hint(error));
}

Child::Child(pid_t pid, FileDescriptor pidfd, Reach reach)
    : pid_(pid), pidfd_(std::move(pidfd)), reach_(reach) {}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      pidfd_(std::move(other.pidfd_)),
      reach_(other.reach_),
      status_(other.status_) {}

Child::~Child() { discard(now_ns() + kGoneNs); }

Child Child::adopt(pid_t pid, Reach reach) {
  if (reach == Reach::group) ::setpgid(pid, pid);  // fails if the child has exec'd: then it did so itself
  try {
    // No other thread reaps the child before us, so its number cannot be another process's.
    return {pid, open_pidfd(pid), reach};
  } catch (const Error&) {
    if (!has_pidfds()) return {pid, FileDescriptor(), reach};
    // A child that cannot be watched must not live: a second worker would step the same arena.
    discard_by_number(pid);
    throw;
  }
}

bool Child::has_ended() const { return wait_until(0); }

bool Child::wait_until(Nanoseconds deadline) const {
  if (status_) return true;
  if (pidfd_.get() < 0) return wait_by_number(deadline);
  for (;;) {
    const Nanoseconds left_ms = deadline == 0 ? 0 : (deadline - now_ns() + 999'999) / 1'000'000;
    pollfd ended = {.fd = pidfd_.get(), .events = POLLIN, .revents = 0};
    const int ready = poll(&ended, 1, static_cast<int>(std::clamp<Nanoseconds>(left_ms, 0, 60'000)));
    if ((ended.revents & POLLIN) != 0) return true;
    if (ready > 0) throw lost_pidfd(pid_);
    if (ready < 0 && errno != EINTR) throw_errno(errno, "poll on a pidfd");
    if (deadline == 0 || now_ns() >= deadline) return false;
  }
}

bool Child::wait_by_number(Nanoseconds deadline) const {
  for (;;) {
    siginfo_t info = {};
    const int result = waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
    if (result == 0 && info.si_pid != 0) return true;
    if (result != 0 && errno == ECHILD) return true;  // another thread reaped it
    if (deadline == 0 || now_ns() >= deadline) return false;
    usleep(200);
  }
}

FileDescriptor Child::pidfd() const {
  return FileDescriptor(
      checked(fcntl(pidfd_.get(), F_DUPFD_CLOEXEC, 0), "a copy of a pidfd", descriptor_hint(EMFILE)));
}

void Child::signal(int number) const {
  if (pid_ < 0 || status_) return;
  if (reach_ == Reach::group) signal_group(number);
  // The child itself is signalled again by its pidfd only for SIGKILL, where twice is as good as once: its
  // group may not exist because setpgid() failed.
  if (reach_ == Reach::group && number != SIGKILL) return;
  if (pidfd_.get() >= 0) {
    // ESRCH: it has just ended, which is what was wanted.
    if (syscall(SYS_pidfd_send_signal, pidfd_.get(), number, nullptr, 0) == 0 || errno == ESRCH) return;
    if (errno != EPERM && errno != ENOSYS)
      throw_errno(errno, format_text("sending signal {} to process {}", number, pid_));
  }
  siginfo_t info = {};
  // ECHILD: another thread reaped it, and its number may be another's by now.
  if (waitid(id_type(), id(), &info, WEXITED | WNOHANG | WNOWAIT) == 0) ::kill(pid_, number);
}

void Child::signal_group(int number) const {
  // ECHILD: another thread reaped the leader, and the group's number may be another's by now.
  siginfo_t info = {};
  const int unreaped = waitid(id_type(), id(), &info, WEXITED | WNOHANG | WNOWAIT);
  if (unreaped != 0 && errno == ECHILD) return;
  if (unreaped != 0 && errno != EINTR) throw lost_pidfd(pid_);
  ::kill(-pid_, number);  // ESRCH: the whole group has ended
}

idtype_t Child::id_type() const { return pidfd_.get() < 0 ? P_PID : kPidfd; }

id_t Child::id() const { return static_cast<id_t>(pidfd_.get() < 0 ? pid_ : pidfd_.get()); }

void Child::kill() const { signal(SIGKILL); }

const ExitStatus& Child::reap() {
  if (status_) return *status_;
  if (reach_ == Reach::group) signal_group(SIGKILL);
  siginfo_t info = {};
  int result = 0;
  const Nanoseconds deadline = now_ns() + kGoneNs;
  for (;;) {
    result = waitid(id_type(), id(), &info, WEXITED | WNOHANG);
    const bool again = result == 0 ? info.si_pid == 0 : errno == EINTR;
    if (!again || now_ns() >= deadline) break;
    usleep(200);  // a debugger holds the child, which has ended, until it lets go or ends
  }
  if (result != 0 && errno != ECHILD) throw lost_pidfd(pid_);
  if (result != 0) info = {};
  take_status(info);
  return *status_;
}

void Child::take_status(const siginfo_t& info) {
  status_.emplace();
  if (info.si_pid == 0) return;
  if (info.si_code == CLD_EXITED) {
    status_->code = info.si_status;
  } else {
    status_->signal = info.si_status;
  }
}

bool Child::end_by(Nanoseconds deadline) {
  kill();
  for (;;) {
    if (status_) return true;
    siginfo_t info = {};
    // A child that a debugger holds has ended long before it can be reaped.
    const int result = waitid(id_type(), id(), &info, WEXITED | WNOHANG);
    if (result == 0 ? info.si_pid != 0 : errno == ECHILD) {
      take_status(info);
    } else if (result != 0 && errno != EINTR) {
      throw lost_pidfd(pid_);
    } else if (now_ns() >= deadline) {
      return false;
    } else {
      usleep(500);
    }
  }
}

bool Child::discard(Nanoseconds deadline) noexcept {
  if (pid_ < 0 || status_) return status_.has_value();
  try {
    end_by(deadline);
  } catch (const Error&) {
    // The pidfd is lost, and the number may be another process's by now: the child cannot be reached.
  }
  pid_ = -1;
  return status_.has_value();
}

Child fork_child(const std::function<int()>& work, Reach reach, std::string_view what) {
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == -1) throw_errno(errno, what, errno == EAGAIN ? kTaskLimitHint : std::string_view());
  if (pid == 0) run_forked(work, reach, parent);
  return Child::adopt(pid, reach);
}

}  // namespace zf
