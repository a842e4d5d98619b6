#include "ipc/child_process.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/error.hpp"

namespace zf {
namespace {

constexpr idtype_t kPidfd = static_cast<idtype_t>(3);  // P_PIDFD, not in every libc's headers

/// How long a process may take to be gone after SIGKILL.
constexpr Nanoseconds kGoneNs = 10 * kSecondNs;

/// posix_spawn answers with an errno value.
void spawn_checked(int error, std::string_view what) {
  if (error != 0) throw_errno(error, what);
}

/// Initialized and destroyed, whatever comes between.
struct FileActions {
  FileActions() { spawn_checked(posix_spawn_file_actions_init(&list), "posix_spawn_file_actions_init"); }
  ~FileActions() { posix_spawn_file_actions_destroy(&list); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;

  posix_spawn_file_actions_t list;
};

/// What happens in the child between its birth and its exec.
class SpawnActions {
 public:
  explicit SpawnActions(const std::vector<InheritedFd>& fds) {
    spawn_checked(posix_spawn_file_actions_addopen(&actions_.list, 0, "/dev/null", O_RDONLY, 0), "/dev/null");
    spawn_checked(posix_spawn_file_actions_addopen(&actions_.list, 1, "/dev/null", O_WRONLY, 0), "/dev/null");
    int next = 3;
    for (const InheritedFd& inherited : fds) {
      assert(inherited.number == next);
      // Copies far above the targets: a target may be the number of another source.
      copies_.emplace_back(checked(fcntl(inherited.fd, F_DUPFD_CLOEXEC, 64), "F_DUPFD_CLOEXEC"));
      spawn_checked(posix_spawn_file_actions_adddup2(&actions_.list, copies_.back().get(), inherited.number),
                    "dup2");
      next = inherited.number + 1;
    }
    // Sockets and devices that other libraries of the trainer opened without close-on-exec.
    spawn_checked(posix_spawn_file_actions_addclosefrom_np(&actions_.list, next), "closefrom");
  }

  const posix_spawn_file_actions_t* get() const { return &actions_.list; }

 private:
  FileActions actions_;
  std::vector<FileDescriptor> copies_;
};

class SpawnAttributes {
 public:
  SpawnAttributes() {
    spawn_checked(posix_spawnattr_init(&attributes_), "posix_spawnattr_init");
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnAttributes() { posix_spawnattr_destroy(&attributes_); }
  SpawnAttributes(const SpawnAttributes&) = delete;
  SpawnAttributes& operator=(const SpawnAttributes&) = delete;

  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_;
};

/// As exec wants it, NULL at the end.
std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// A child that nobody could watch must not live: it would step the same arena as the one after it.
void discard(pid_t pid) {
  ::kill(pid, SIGKILL);
  const Nanoseconds deadline = now_ns() + kGoneNs;
  while (waitpid(pid, nullptr, WNOHANG) == 0 && now_ns() < deadline) usleep(1000);
}

}  // namespace

std::string text_of(const Ending& ending) {
  if (ending.signal) {
    const char* const name = sigdescr_np(*ending.signal);
    return fmt::format("was killed by signal {} ({})", *ending.signal, name != nullptr ? name : "?");
  }
  if (ending.exit_status) return fmt::format("ended with status {}", *ending.exit_status);
  return "is gone (its status was collected by someone else: is SIGCHLD ignored?)";
}

Error lost_pidfd(pid_t pid) {
  return {Exit::runtime_error,
          fmt::format("the descriptor by which process {} is watched is no longer ours", pid),
          "something in this program closes descriptors that it did not open"};
}

FileDescriptor open_pidfd(pid_t pid) {
  // glibc has a wrapper from 2.36 on only.
  const long fd = syscall(SYS_pidfd_open, pid, 0);
  return FileDescriptor(static_cast<int>(checked(fd, fmt::format("pidfd_open of process {}", pid))));
}

ChildProcess::ChildProcess(pid_t pid, FileDescriptor pidfd) : pid_(pid), pidfd_(std::move(pidfd)) {}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), pidfd_(std::move(other.pidfd_)), ending_(other.ending_) {}

ChildProcess::~ChildProcess() {
  if (pid_ < 0 || ending_) return;
  try {
    kill();
    if (wait_for_end(now_ns() + kGoneNs)) ending();
  } catch (const Error&) {
    // Its descriptor is lost, and its number may be another process's by now: it cannot be reached.
  }
}

ChildProcess ChildProcess::spawn(const std::filesystem::path& program,
                                 const std::vector<std::string>& arguments,
                                 const std::vector<InheritedFd>& fds,
                                 const std::optional<std::vector<std::string>>& environment) {
  const SpawnActions actions(fds);
  const SpawnAttributes attributes;
  std::vector<std::string> words = {program.string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const std::vector<char*> argv = pointers_to(words);
  std::vector<std::string> variables = environment.value_or(std::vector<std::string>());
  const std::vector<char*> envp = pointers_to(variables);
  pid_t pid = -1;
  spawn_checked(posix_spawn(&pid, program.c_str(), actions.get(), attributes.get(), argv.data(),
                            environment ? envp.data() : environ),
                "starting " + program.string());
  try {
    // Nobody collects it before us, so the number cannot be another process's.
    return {pid, open_pidfd(pid)};
  } catch (const Error&) {
    discard(pid);
    throw;
  }
}

FileDescriptor ChildProcess::pidfd() const {
  return FileDescriptor(checked(fcntl(pidfd_.get(), F_DUPFD_CLOEXEC, 0), "a copy of a pidfd"));
}

bool ChildProcess::has_ended() const { return wait_for_end(0); }

bool ChildProcess::wait_for_end(Nanoseconds deadline) const {
  if (ending_) return true;
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

void ChildProcess::kill() const {
  if (ending_) return;
  // ESRCH: it has just ended, which is what was wanted.
  if (syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0) != 0 && errno != ESRCH) {
    throw_errno(errno, fmt::format("killing process {}", pid_));
  }
}

const Ending& ChildProcess::ending() {
  if (ending_) return *ending_;
  siginfo_t info = {};
  int result = 0;
  do {
    result = waitid(kPidfd, static_cast<id_t>(pidfd_.get()), &info, WEXITED | WNOHANG);
  } while (result != 0 && errno == EINTR);
  if (result != 0 && errno != ECHILD) throw lost_pidfd(pid_);
  ending_.emplace();
  if (result != 0 || info.si_pid == 0) return *ending_;
  if (info.si_code == CLD_EXITED) {
    ending_->exit_status = info.si_status;
  } else {
    ending_->signal = info.si_status;
  }
  return *ending_;
}

}  // namespace zf
