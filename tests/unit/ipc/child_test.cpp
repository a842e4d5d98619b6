#include "ipc/child.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../os/is_gone.hpp"
#include "../os/refuse_call.hpp"
#include "base/error.hpp"
#include "ipc/spawn.hpp"

namespace zf {
namespace {

using testing::HasSubstr;

Child shell(const std::string& script, const std::vector<InheritedFd>& fds = {}) {
  return spawn("/bin/sh", {"-c", script}, fds);
}

ExitStatus end_of(Child child) {
  EXPECT_TRUE(child.wait_until(now_ns() + 10 * kSecondNs));
  return child.reap();
}

TEST(Child, TellsStatusAndSignal) {
  const ExitStatus with_status = end_of(shell("exit 7"));
  EXPECT_EQ(with_status.code, 7);
  EXPECT_EQ(describe(with_status), "ended with status 7");
  const ExitStatus by_signal = end_of(shell("kill -SEGV $$"));
  EXPECT_EQ(by_signal.signal, SIGSEGV);
  EXPECT_EQ(describe(by_signal), "was killed by signal 11 (Segmentation fault)");
}

TEST(Child, LookingDoesNotWait) {
  Child child = shell("exec sleep 60");
  const Nanoseconds begin = now_ns();
  EXPECT_FALSE(child.has_ended());
  EXPECT_FALSE(child.wait_until(begin + kSecondNs / 20));
  EXPECT_LT(now_ns() - begin, 10 * kSecondNs);
  child.kill();
  EXPECT_TRUE(child.wait_until(now_ns() + 10 * kSecondNs));
  EXPECT_EQ(child.reap().signal, SIGKILL);
  EXPECT_EQ(child.reap().signal, SIGKILL) << "the same answer again";
}

TEST(Child, ThatADebuggerHeldWhenItEndedIsCollectedWhenThatLetsGo) {
  Child child = fork_child(
      [] {
        ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
        for (;;) ::pause();
        return 0;
      },
      Reach::process, "a child");
  Child debugger = fork_child(
      [&] {
        const Nanoseconds deadline = now_ns() + 5 * kSecondNs;
        while (::ptrace(PTRACE_SEIZE, child.pid(), nullptr, nullptr) != 0) {
          if (now_ns() >= deadline) return 1;
          ::usleep(1000);
        }
        ::kill(child.pid(), SIGKILL);
        siginfo_t info = {};
        if (::waitid(P_PID, static_cast<id_t>(child.pid()), &info, WEXITED | WNOWAIT) != 0) return 1;
        ::usleep(100'000);
        return 0;
      },
      Reach::process, "a debugger");
  if (!child.wait_until(now_ns() + 10 * kSecondNs)) {
    ASSERT_EQ(end_of(std::move(debugger)).code, 1);
    GTEST_SKIP() << "ptrace is not allowed here";
  }
  EXPECT_EQ(child.reap().signal, SIGKILL);
  EXPECT_EQ(end_of(std::move(debugger)).code, 0);
}

TEST(Child, DroppingItKillsAndCollects) {
  pid_t pid = 0;
  {
    const Child child = shell("exec sleep 60");
    pid = child.pid();
  }
  EXPECT_EQ(kill(pid, 0), -1) << "no zombie either";
}

/// Allows this many more descriptors to be opened while it lives.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(rlim_t more) {
    getrlimit(RLIMIT_NOFILE, &before_);
    std::vector<FileDescriptor> held;  // numbers below the highest one may be free
    while (held.empty() || held.back().get() < kHighest - 1) held.emplace_back(checked(dup(2), "dup"));
    const rlimit limit{kHighest + more, before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &limit);
    held_ = std::move(held);
  }
  ~DescriptorLimit() { setrlimit(RLIMIT_NOFILE, &before_); }
  DescriptorLimit(const DescriptorLimit&) = delete;
  DescriptorLimit& operator=(const DescriptorLimit&) = delete;

 private:
  static constexpr int kHighest = 100;
  rlimit before_ = {};
  std::vector<FileDescriptor> held_;
};

TEST(Child, WithoutADescriptorToWatchItThereIsNone) {
  const FileDescriptor null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  int refused = 0;
  for (rlim_t more = 0; more < 6; ++more) {
    const DescriptorLimit limit(more);
    try {
      Child child = spawn("/bin/sleep", {"60"}, {{null.get(), 3}});
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("Too many open files"));
      ++refused;
    }
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "no child of any kind with " << more << " more";
  }
  EXPECT_GE(refused, 2) << "the copy of a descriptor, and the pidfd";
  EXPECT_LT(refused, 6);
}

TEST(Child, ALostDescriptorIsNoDeath) {
  Child child = shell("exec sleep 60");
  const pid_t pid = child.pid();
  for (int fd = 3; fd < 64; ++fd) {  // as a careless library does
    std::array<char, 64> name{};
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    if (readlink(link.c_str(), name.data(), name.size() - 1) > 0 &&
        std::string_view(name.data()).find("pidfd") != std::string_view::npos) {
      close(fd);
    }
  }
  EXPECT_THROW(child.has_ended(), Error);
  EXPECT_THROW(child.reap(), Error);
  EXPECT_EQ(kill(pid, SIGKILL), 0) << "it lives";
  EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
}

/// Runs a test of children in a process where a system call is refused with `error`, as in sandboxes. The
/// test returns true if all is well.
void without(long call, int error, bool (*test)()) {
  const pid_t process = fork();
  ASSERT_GE(process, 0);
  if (process == 0) {
    refuse_call(call, error);
    _exit(test() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(process, &status, 0), process);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNoFilters)
    GTEST_SKIP() << "seccomp filters are not to be had here";
  EXPECT_EQ(status, 0) << strerrorname_np(error);
}

/// The same without pidfds, as before Linux 5.3.
void without_pidfds(int error, bool (*test)()) { without(SYS_pidfd_open, error, test); }

TEST(Child, WhereNoSignalGoesByPidfdItIsKilledByItsNumber) {
  for (const int error : {ENOSYS, EPERM}) {
    without(SYS_pidfd_send_signal, error, [] {
      Child child = shell("exec sleep 60");
      return child.end_by(now_ns() + 10 * kSecondNs) && child.reap().signal == SIGKILL;
    });
  }
}

TEST(Child, WithoutPidfdsItIsWatchedByItsNumber) {
  for (const int error : {ENOSYS, EPERM}) {
    without_pidfds(error, [] {
      Child child = shell("exit 7");
      return child.wait_until(now_ns() + 10 * kSecondNs) && child.reap().code == 7;
    });
    without_pidfds(error, [] {
      Child child = shell("exec sleep 60");
      if (child.has_ended() || child.wait_until(now_ns() + kSecondNs / 20)) return false;
      child.kill();
      return child.wait_until(now_ns() + 10 * kSecondNs) && child.reap().signal == SIGKILL;
    });
    without_pidfds(error, [] {
      pid_t pid = 0;
      {
        const Child child = shell("exec sleep 60");
        pid = child.pid();
      }
      return ::kill(pid, 0) != 0 && errno == ESRCH;
    });
  }
}

TEST(Child, WhoNeedsAPidfdIsToldWhatIsMissing) {
  for (const int error : {ENOSYS, EPERM}) {
    without_pidfds(error, [] {
      try {
        open_pidfd(getpid());
      } catch (const Error& refused) {
        const std::string_view text = refused.what();
        return text.find("needs Linux 5.3 or later") != std::string_view::npos;
      }
      return false;
    });
  }
}

TEST(Child, GetsTheNamedDescriptorsAndNoOthers) {
  // Some descriptors are in the way: one is not close-on-exec, and the sources have the numbers of each
  // other's targets.
  const FileDescriptor leaked(dup(2));
  const FileDescriptor memory(memfd_create("test", MFD_CLOEXEC));
  const FileDescriptor low(fcntl(memory.get(), F_DUPFD_CLOEXEC, 3));
  ASSERT_EQ(ftruncate(memory.get(), 100), 0);
  const FileDescriptor null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  Child child = shell(
      "set -e; for fd in $(seq 5 300); do test ! -e /proc/$$/fd/$fd; done; "
      "readlink /proc/$$/fd/3 | grep -q null; readlink /proc/$$/fd/4 | grep -q memfd:test",
      {{null.get(), 3}, {memory.get(), 4}});
  EXPECT_EQ(end_of(std::move(child)).code, 0);
}

TEST(Child, StartsWithDefaultSignals) {
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  auto* const old = std::signal(SIGUSR1, SIG_IGN);
  const ExitStatus terminated = end_of(shell("kill -TERM $$; exit 3"));
  const ExitStatus user = end_of(shell("kill -USR1 $$; exit 3"));
  std::signal(SIGUSR1, old);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(terminated.signal, SIGTERM);
  EXPECT_EQ(user.signal, SIGUSR1);
}

TEST(Child, AMissingProgramIsNamed) {
  try {
    spawn("/nowhere/zf-optimizer", {}, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("/nowhere/zf-optimizer: No such file or directory"));
  }
}

TEST(Child, SomeoneElseMayCollectIt) {
  auto* const old = std::signal(SIGCHLD, SIG_IGN);  // the kernel collects
  Child child = shell("sleep 2");
  EXPECT_TRUE(child.wait_until(now_ns() + 10 * kSecondNs));
  EXPECT_THAT(describe(child.reap()), HasSubstr("other code has collected its exit status"));
  std::signal(SIGCHLD, old);
}

TEST(Child, AForkedOneTellsWhatItsWorkReturned) {
  EXPECT_EQ(end_of(fork_child([] { return 5; }, Reach::process, "fork")).code, 5);
  EXPECT_EQ(end_of(fork_child([]() -> int { throw 1; }, Reach::process, "fork")).code, 1);
}

TEST(Child, TheRestOfItsGroupEndsWithIt) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const FileDescriptor in(ends[0]);
  const FileDescriptor out(ends[1]);
  const auto leaves_one_behind = [&] {
    const pid_t other = fork();
    if (other == 0) {
      pause();
      _exit(0);
    }
    return write(out.get(), &other, sizeof other) == sizeof other ? 0 : 1;
  };
  Child child = fork_child(leaves_one_behind, Reach::group, "fork");
  pid_t other = 0;
  ASSERT_EQ(read(in.get(), &other, sizeof other), static_cast<ssize_t>(sizeof other));
  ASSERT_TRUE(child.wait_until(now_ns() + 10 * kSecondNs));
  EXPECT_EQ(kill(other, 0), 0);
  EXPECT_EQ(child.reap().code, 0);
  EXPECT_TRUE(is_gone(other));
}

TEST(Child, ASignalToItsGroupReachesAll) {
  Child child = fork_child(
      [] {
        if (fork() == 0) pause();
        pause();
        return 0;
      },
      Reach::group, "fork");
  child.signal(SIGTERM);
  EXPECT_EQ(end_of(std::move(child)).signal, SIGTERM);
}

TEST(Child, ADiscardedOneIsNotWaitedForAgain) {
  Child child = fork_child(
      [] {
        pause();
        return 0;
      },
      Reach::process, "fork");
  const pid_t pid = child.pid();
  EXPECT_TRUE(child.discard(now_ns() + 10 * kSecondNs));
  EXPECT_EQ(kill(pid, 0), -1) << "no zombie either";
}

}  // namespace
}  // namespace zf
