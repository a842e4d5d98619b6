#include "children/run_command.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "base/error.hpp"
#include "base/file_descriptor.hpp"
#include "children/child_output.hpp"
#include "os/exec.hpp"
#include "os/standard_streams.hpp"

namespace zf {
namespace {

constexpr const char* kNull = "/dev/null";
constexpr int kPollMs = 100;
constexpr Nanoseconds kGraceNs = 5 * kSecondNs;
constexpr std::size_t kMaxLineBytes = 1 << 16;
/// A pipe holds 64 KiB, or up to this much if a user has enlarged it (/proc/sys/fs/pipe-max-size).
constexpr std::size_t kMaxRestBytes = 1 << 20;

/// Runs in the child. Replaces it by the command, which writes to `out` and reads nothing. Returns the exit
/// code if that fails.
int become(const std::vector<std::string>& command, int out) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) ::signal(signal, SIG_DFL);
  if (::dup2(out, 1) < 0 || ::dup2(out, 2) < 0) return 126;
  const int null = ::open(kNull, O_RDONLY);
  if (null < 0 || ::dup2(null, 0) < 0) {
    print_stderr("zf-tune: {}: {}; the command's input comes from there: mount or make {}\n", kNull,
                 errno_text(errno), kNull);
    return 126;
  }
  return exec_or_exit_code(command);
}

/// Splits text into lines, and drops the end of a line that is too long.
class LineSplitter {
 public:
  explicit LineSplitter(const std::function<void(std::string_view)>& on_line) : on_line_(on_line) {}

  void add(std::string_view text) {
    for (const char letter : text) {
      // A progress bar rewrites its line: '\r' ends a line too.
      const bool ends = letter == '\n' || letter == '\r';
      if (ends) {
        flush();
      } else if (line_.size() < kMaxLineBytes) {
        line_ += letter;
      }
    }
  }
  void flush() {
    if (!line_.empty()) on_line_(line_);
    line_.clear();
  }

 private:
  const std::function<void(std::string_view)>& on_line_;
  std::string line_;
};

/// Waits up to `wait_ms` for output and reads it. Returns false at the end of the pipe.
bool read_some(int fd, int wait_ms, LineSplitter& lines) {
  std::array<char, 65536> chunk;
  pollfd waiting{fd, POLLIN, 0};
  const int ready = ::poll(&waiting, 1, wait_ms);
  if (ready < 0 && errno != EINTR) throw_errno(errno, "poll on the command's output");
  if (ready <= 0) return true;
  const ssize_t got = checked(::read(fd, chunk.data(), chunk.size()), "reading the command's output");
  lines.add({chunk.data(), static_cast<std::size_t>(got)});
  return got > 0;
}

/// Reads what is in the pipe now, without waiting: a process that left the group may hold the pipe open for
/// ever. It may also write for ever, so this ends after as much as a pipe can hold.
void read_rest(int fd, LineSplitter& lines) {
  checked(::fcntl(fd, F_SETFL, O_NONBLOCK), "fcntl");
  std::array<char, 65536> chunk;
  for (std::size_t rest = 0; rest < kMaxRestBytes;) {
    const ssize_t got = ::read(fd, chunk.data(), chunk.size());
    if (got <= 0) break;
    rest += static_cast<std::size_t>(got);
    lines.add({chunk.data(), static_cast<std::size_t>(got)});
  }
  lines.flush();
}

}  // namespace

CommandEnd run_command(const std::vector<std::string>& command, Nanoseconds deadline_ns,
                       const std::function<bool()>& stop,
                       const std::function<void(std::string_view)>& on_line) {
  Pipe pipe;
  Child child =
      fork_child([&] { return become(command, pipe.out.get()); }, Reach::group, "cannot start the command");
  pipe.out = FileDescriptor();

  CommandEnd end;
  LineSplitter lines(on_line);
  Nanoseconds kill_ns = 0;  // when to send SIGKILL; 0 before SIGTERM
  bool open = true;
  while (!child.has_ended()) {
    if (open) {
      open = read_some(pipe.in.get(), kPollMs, lines);
    } else {
      child.wait_until(now_ns() + kPollMs * kMillisecondNs);
    }
    const Nanoseconds now = now_ns();
    if (kill_ns != 0) {
      if (now >= kill_ns) child.kill();
    } else if (const bool stopped = stop(); stopped || now >= deadline_ns) {
      end.why = stopped ? CommandEnd::Why::stopped : CommandEnd::Why::late;
      child.signal(SIGTERM);
      kill_ns = now + kGraceNs;
    }
  }
  end.status = child.reap();
  read_rest(pipe.in.get(), lines);
  return end;
}

}  // namespace zf
