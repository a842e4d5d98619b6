#include "children/child_output.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <string_view>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/file_descriptor.hpp"

namespace zf {
namespace {

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

/// The whole life of the child after the fork.
[[noreturn]] void live(const std::function<std::string()>& work, int out, pid_t parent) {
  ::setpgid(0, 0);  // a terminal's Ctrl-C is for the parent to answer
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // it died before the line above
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) ::signal(signal, SIG_DFL);

  const int null = ::open("/dev/null", O_RDWR);
  for (const int stream : {0, 1, 2}) ::dup2(null, stream);
  if (out > 3) ::close_range(3, static_cast<unsigned>(out) - 1, 0);
  ::close_range(static_cast<unsigned>(out) + 1, std::numeric_limits<unsigned>::max(), 0);

  try {
    const std::string text = work();
    ::_exit(write_all(out, text) ? 0 : 1);
  } catch (...) {
    ::_exit(1);
  }
}

/// Appends what arrives until the other end closes; false when the deadline passes first.
bool read_until_closed(int fd, Nanoseconds deadline_ns, std::string& text) {
  std::array<char, 65536> chunk;
  for (;;) {
    const Nanoseconds left = std::max<Nanoseconds>(deadline_ns - now_ns(), 0);
    pollfd waiting{fd, POLLIN, 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>((left + kMillisecondNs - 1) / kMillisecondNs));
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) return false;
    const ssize_t got = checked(::read(fd, chunk.data(), chunk.size()), "cannot read from a child process");
    if (got == 0) return true;
    text.append(chunk.data(), static_cast<std::size_t>(got));
  }
}

/// Waits until `deadline_ns` for the child to be gone; its status as of waitpid, -1 if it is still there.
int reap(pid_t child, Nanoseconds deadline_ns) {
  for (;;) {
    int status = 0;
    const pid_t gone = ::waitpid(child, &status, WNOHANG);
    if (gone == child) return status;
    if (gone < 0 && errno != EINTR) return 1;  // someone ignores SIGCHLD: how it ended is lost
    if (now_ns() >= deadline_ns) return -1;
    ::usleep(200);
  }
}

}  // namespace

ChildOutput output_of_child(const std::function<std::string()>& work, std::chrono::milliseconds deadline) {
  const Nanoseconds deadline_ns = now_ns() + deadline.count() * kMillisecondNs;
  int ends[2];
  checked(::pipe2(ends, O_CLOEXEC), "cannot make a pipe");
  const FileDescriptor in(ends[0]);
  FileDescriptor out(ends[1]);

  const pid_t self = ::getpid();
  const pid_t child = checked(::fork(), "cannot start a child process");
  if (child == 0) live(work, out.get(), self);
  out = FileDescriptor();  // else we would never see the end of the child's text

  ChildOutput output;
  const bool closed = read_until_closed(in.get(), deadline_ns, output.text);
  const int status = closed ? reap(child, deadline_ns) : -1;
  if (status == -1) {
    ::kill(child, SIGKILL);
    reap(child, now_ns() + 50 * kMillisecondNs);  // unless a driver holds on to it
    return {ChildOutput::End::late, {}};
  }
  if (status != 0) return {ChildOutput::End::died, {}};
  output.end = ChildOutput::End::done;
  return output;
}

}  // namespace zf
