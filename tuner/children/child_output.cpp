#include "children/child_output.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <span>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "ipc/child.hpp"
#include "os/file.hpp"

namespace zf {
namespace {

/// The longest wait for a killed child. A child that is still stuck in a driver then is left behind.
constexpr Nanoseconds kKilledGraceNs = 50 * kMillisecondNs;

/// Runs in the child. Disconnects it from our files and from the terminal, then calls `work`. Returns the
/// exit code.
int work_apart(const std::function<std::string()>& work, int out) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) ::signal(signal, SIG_DFL);
  const int null = ::open("/dev/null", O_RDWR);
  for (const int stream : {0, 1, 2}) ::dup2(null, stream);
  if (out > 3) ::close_range(3, static_cast<unsigned>(out) - 1, 0);
  ::close_range(static_cast<unsigned>(out) + 1, std::numeric_limits<unsigned>::max(), 0);
  const std::string text = work();
  return write_all(out, std::as_bytes(std::span(text))) == 0 ? 0 : 1;
}

/// Appends what arrives to `text` until the other end is closed. Returns false if the deadline passes first.
bool read_until_closed(int fd, Nanoseconds deadline_ns, std::string& text) {
  std::array<char, 65536> chunk;
  for (;;) {
    const Nanoseconds left = std::max<Nanoseconds>(deadline_ns - now_ns(), 0);
    pollfd waiting{fd, POLLIN, 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>((left + kMillisecondNs - 1) / kMillisecondNs));
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) throw_errno(errno, "poll on a child process");
    if (ready == 0) return false;
    const ssize_t got = checked(::read(fd, chunk.data(), chunk.size()), "cannot read from a child process");
    if (got == 0) return true;
    text.append(chunk.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace

Pipe::Pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno(errno, "cannot create a pipe", descriptor_hint(errno));
  in = FileDescriptor(ends[0]);
  out = FileDescriptor(ends[1]);
}

ChildOutput output_of_child(const std::function<std::string()>& work, std::chrono::milliseconds deadline) {
  const Nanoseconds deadline_ns = now_ns() + deadline.count() * kMillisecondNs;
  Pipe pipe;
  // In a process group of its own, because the parent answers the terminal's Ctrl-C.
  Child child = fork_child([&] { return work_apart(work, pipe.out.get()); }, Reach::group,
                           "cannot start a child process");
  pipe.out = FileDescriptor();  // otherwise the pipe would stay open and never end

  ChildOutput output;
  const bool closed = read_until_closed(pipe.in.get(), deadline_ns, output.text);
  if (!closed || !child.wait_until(deadline_ns)) {
    child.discard(now_ns() + kKilledGraceNs);  // a driver may keep it for longer
    return {ChildOutput::End::late, {}};
  }
  if (child.reap().code != 0) return {ChildOutput::End::died, {}};
  output.end = ChildOutput::End::done;
  return output;
}

}  // namespace zf
