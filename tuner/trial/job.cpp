#include "trial/job.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "base/error.hpp"
#include "base/file_descriptor.hpp"

namespace zf {
namespace {

constexpr int kLookMs = 100;
constexpr Nanoseconds kGraceNs = 5 * kSecondNs;
constexpr std::size_t kLongestLine = 1 << 16;

/// The life of the child up to its exec.
[[noreturn]] void live(const std::vector<std::string>& command, int out, pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // it died before the line above
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) ::signal(signal, SIG_DFL);
  const int null = ::open("/dev/null", O_RDONLY);
  if (null < 0 || ::dup2(null, 0) < 0 || ::dup2(out, 1) < 0 || ::dup2(out, 2) < 0) ::_exit(126);
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  const int error = errno;
  const std::string text = fmt::format("{}: {}\n", command.front(), errno_text(error));
  [[maybe_unused]] const ssize_t told = ::write(2, text.data(), text.size());
  ::_exit(error == ENOENT ? 127 : 126);
}

/// Cuts what arrives into lines, and off what is too long of one.
class Lines {
 public:
  explicit Lines(const std::function<void(std::string_view)>& on_line) : on_line_(on_line) {}

  void add(std::string_view text) {
    for (const char letter : text) {
      // A progress bar goes back to the beginning of its line instead of starting another.
      const bool ends = letter == '\n' || letter == '\r';
      if (ends) {
        flush();
      } else if (line_.size() < kLongestLine) {
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

/// The command's process group; killed and collected at the latest by the destructor.
class Group {
 public:
  explicit Group(pid_t leader) : leader_(leader) {}
  ~Group() {
    if (collected_) return;
    signal(SIGKILL);
    while (::waitpid(leader_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  void signal(int number) const { ::kill(-leader_, number); }  // ESRCH: all of it has ended

  /// Whether the command itself has ended; then the rest of its group is killed, and `ending` filled in.
  bool has_ended(ExitStatus& ending) {
    siginfo_t info = {};
    // Not collected yet, so that the group's number cannot be another's when we kill it.
    if (::waitid(P_PID, static_cast<id_t>(leader_), &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
      if (errno == EINTR) return false;
      throw_errno(errno, "waiting for the command");
    }
    if (info.si_pid == 0) return false;
    signal(SIGKILL);
    if (info.si_code == CLD_EXITED) {
      ending.code = info.si_status;
    } else {
      ending.signal = info.si_status;
    }
    while (::waitpid(leader_, nullptr, 0) < 0 && errno == EINTR) {
    }
    collected_ = true;
    return true;
  }

 private:
  pid_t leader_;
  bool collected_ = false;
};

/// Reads what there is, waiting up to `wait_ms` for it. False at the end of the pipe.
bool read_some(int fd, int wait_ms, Lines& lines) {
  std::array<char, 65536> chunk;
  pollfd waiting{fd, POLLIN, 0};
  const int ready = ::poll(&waiting, 1, wait_ms);
  if (ready < 0 && errno != EINTR) throw_errno(errno, "poll on the command's output");
  if (ready <= 0) return true;
  const ssize_t got = checked(::read(fd, chunk.data(), chunk.size()), "reading the command's output");
  lines.add({chunk.data(), static_cast<std::size_t>(got)});
  return got > 0;
}

/// What is in the pipe now, and no more: a process that fled the group may hold it open for ever.
void read_rest(int fd, Lines& lines) {
  checked(::fcntl(fd, F_SETFL, O_NONBLOCK), "fcntl");
  std::array<char, 65536> chunk;
  for (;;) {
    const ssize_t got = ::read(fd, chunk.data(), chunk.size());
    if (got <= 0) break;
    lines.add({chunk.data(), static_cast<std::size_t>(got)});
  }
  lines.flush();
}

}  // namespace

JobEnd run_job(const std::vector<std::string>& command, Nanoseconds deadline_ns,
               const std::function<bool()>& stop, const std::function<void(std::string_view)>& on_line) {
  int ends[2];
  checked(::pipe2(ends, O_CLOEXEC), "cannot make a pipe");
  const FileDescriptor in(ends[0]);
  FileDescriptor out(ends[1]);
  const pid_t self = ::getpid();
  const pid_t child = checked(::fork(), "cannot start the command");
  if (child == 0) live(command, out.get(), self);
  ::setpgid(child, child);  // on both sides, so that neither is too early; fails once it has exec'd
  Group group(child);
  out = FileDescriptor();

  JobEnd end;
  Lines lines(on_line);
  Nanoseconds kill_ns = 0;  // when SIGTERM has had its time
  bool open = true;
  while (!group.has_ended(end.ending)) {
    if (open) {
      open = read_some(in.get(), kLookMs, lines);
    } else {
      ::poll(nullptr, 0, kLookMs / 10);
    }
    const Nanoseconds now = now_ns();
    if (kill_ns != 0) {
      if (now >= kill_ns) group.signal(SIGKILL);
    } else if (const bool stopped = stop(); stopped || now >= deadline_ns) {
      end.why = stopped ? JobEnd::Why::stopped : JobEnd::Why::late;
      group.signal(SIGTERM);
      kill_ns = now + kGraceNs;
    }
  }
  read_rest(in.get(), lines);
  return end;
}

}  // namespace zf
