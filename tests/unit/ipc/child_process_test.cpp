#include "ipc/child_process.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace zf {
namespace {

using testing::HasSubstr;

ChildProcess shell(const std::string& script, const std::vector<InheritedFd>& fds = {}) {
  return ChildProcess::spawn("/bin/sh", {"-c", script}, fds);
}

Ending end_of(ChildProcess child) {
  EXPECT_TRUE(child.wait_for_end(now_ns() + 10 * kSecondNs));
  return child.ending();
}

TEST(ChildProcess, TellsStatusAndSignal) {
  const Ending with_status = end_of(shell("exit 7"));
  EXPECT_EQ(with_status.exit_status, 7);
  EXPECT_EQ(text_of(with_status), "ended with status 7");
  const Ending by_signal = end_of(shell("kill -SEGV $$"));
  EXPECT_EQ(by_signal.signal, SIGSEGV);
  EXPECT_EQ(text_of(by_signal), "was killed by signal 11 (Segmentation fault)");
}

TEST(ChildProcess, LookingDoesNotWait) {
  ChildProcess child = shell("exec sleep 60");
  const Nanoseconds begin = now_ns();
  EXPECT_FALSE(child.has_ended());
  EXPECT_FALSE(child.wait_for_end(begin + kSecondNs / 20));
  EXPECT_LT(now_ns() - begin, kSecondNs);
  child.kill();
  EXPECT_TRUE(child.wait_for_end(now_ns() + 10 * kSecondNs));
  EXPECT_EQ(child.ending().signal, SIGKILL);
  EXPECT_EQ(child.ending().signal, SIGKILL) << "the same answer again";
}

TEST(ChildProcess, DroppingItKillsAndCollects) {
  pid_t pid = 0;
  {
    const ChildProcess child = shell("exec sleep 60");
    pid = child.pid();
  }
  EXPECT_EQ(kill(pid, 0), -1) << "no zombie either";
}

/// So many descriptors more may be opened, while this lives.
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

TEST(ChildProcess, WithoutADescriptorToWatchItThereIsNone) {
  const FileDescriptor null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  int refused = 0;
  for (rlim_t more = 0; more < 6; ++more) {
    const DescriptorLimit limit(more);
    try {
      ChildProcess child = ChildProcess::spawn("/bin/sleep", {"60"}, {{null.get(), 3}});
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("Too many open files"));
      ++refused;
    }
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "no child of any kind with " << more << " more";
  }
  EXPECT_GE(refused, 2) << "the copy of a descriptor, and the pidfd";
  EXPECT_LT(refused, 6);
}

TEST(ChildProcess, ALostDescriptorIsNoDeath) {
  ChildProcess child = shell("exec sleep 60");
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
  EXPECT_THROW(child.ending(), Error);
  EXPECT_EQ(kill(pid, SIGKILL), 0) << "it lives";
  EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
}

TEST(ChildProcess, GetsTheNamedDescriptorsAndNoOthers) {
  // Descriptors in the way: one that is not close-on-exec, and sources whose numbers are targets swapped.
  const FileDescriptor leaked(dup(2));
  const FileDescriptor memory(memfd_create("test", MFD_CLOEXEC));
  const FileDescriptor low(fcntl(memory.get(), F_DUPFD_CLOEXEC, 3));
  ASSERT_EQ(ftruncate(memory.get(), 100), 0);
  const FileDescriptor null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  ChildProcess child = shell(
      "set -e; for fd in $(seq 5 300); do test ! -e /proc/$$/fd/$fd; done; "
      "readlink /proc/$$/fd/3 | grep -q null; readlink /proc/$$/fd/4 | grep -q memfd:test",
      {{null.get(), 3}, {memory.get(), 4}});
  EXPECT_EQ(end_of(std::move(child)).exit_status, 0);
}

TEST(ChildProcess, StartsWithDefaultSignals) {
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  auto* const old = std::signal(SIGUSR1, SIG_IGN);
  const Ending terminated = end_of(shell("kill -TERM $$; exit 3"));
  const Ending user = end_of(shell("kill -USR1 $$; exit 3"));
  std::signal(SIGUSR1, old);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(terminated.signal, SIGTERM);
  EXPECT_EQ(user.signal, SIGUSR1);
}

TEST(ChildProcess, AMissingProgramIsNamed) {
  try {
    ChildProcess::spawn("/nowhere/zf-optimizer", {}, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("/nowhere/zf-optimizer: No such file or directory"));
  }
}

TEST(ChildProcess, SomeoneElseMayCollectIt) {
  auto* const old = std::signal(SIGCHLD, SIG_IGN);  // the kernel collects
  ChildProcess child = shell("sleep 0.2");
  EXPECT_TRUE(child.wait_for_end(now_ns() + 10 * kSecondNs));
  EXPECT_THAT(text_of(child.ending()), HasSubstr("collected by someone else"));
  std::signal(SIGCHLD, old);
}

}  // namespace
}  // namespace zf
