#include "ipc/doorbell.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <new>
#include <vector>

namespace zf {
namespace {

/// Two bells and their epochs in memory that a forked process shares.
struct Shared {
  alignas(128) std::atomic<std::uint64_t> asked{0};
  Doorbell ask;
  alignas(128) std::atomic<std::uint64_t> answered{0};
  Doorbell answer;
};

class DoorbellTest : public testing::TestWithParam<Nanoseconds> {
 protected:
  void SetUp() override {
    void* const memory =
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    shared_ = new (memory) Shared;
    shared_->ask.init();
    shared_->answer.init();
  }
  void TearDown() override {
    if (child_ > 0) {
      kill(child_, SIGKILL);
      waitpid(child_, nullptr, 0);
    }
    munmap(shared_, sizeof(Shared));
  }

  template <class Body>
  void fork_child(Body body) {
    child_ = fork();
    ASSERT_GE(child_, 0);
    if (child_ == 0) {
      body();
      _exit(0);
    }
  }

  /// Answers every requested epoch, for ever.
  void fork_echo(Nanoseconds spin_ns) {
    fork_child([this, spin_ns] {
      for (std::uint64_t next = 1;; ++next) {
        const auto asked = [&] { return shared_->asked.load() >= next; };
        if (!shared_->ask.wait(asked, now_ns() + 60 * kSecondNs, spin_ns)) _exit(1);
        shared_->answered.store(next);
        shared_->answer.ring();
      }
    });
  }

  bool ask(std::uint64_t epoch, Nanoseconds spin_ns) {
    shared_->asked.store(epoch);
    shared_->ask.ring();
    return shared_->answer.wait([&] { return shared_->answered.load() >= epoch; }, now_ns() + 10 * kSecondNs,
                                spin_ns);
  }

  Shared* shared_ = nullptr;
  pid_t child_ = -1;
};

TEST_P(DoorbellTest, NoRingIsLostBetweenTwoProcesses) {
  const Nanoseconds spin_ns = GetParam();
  fork_echo(spin_ns);
  std::vector<Nanoseconds> times;
  for (std::uint64_t epoch = 1; epoch <= 20'000; ++epoch) {
    const Nanoseconds begin = now_ns();
    ASSERT_TRUE(ask(epoch, spin_ns)) << "epoch " << epoch;
    times.push_back(now_ns() - begin);
  }
  std::sort(times.begin(), times.end());
  std::printf("round trip with %ld ns of spinning: p50 %ld ns, p99 %ld ns\n", static_cast<long>(spin_ns),
              static_cast<long>(times[times.size() / 2]), static_cast<long>(times[times.size() * 99 / 100]));
}

INSTANTIATE_TEST_SUITE_P(Spin, DoorbellTest, testing::Values(0, 1'000, 50'000));

TEST_F(DoorbellTest, TheDeadlineIsKept) {
  const Nanoseconds begin = now_ns();
  EXPECT_FALSE(shared_->ask.wait([] { return false; }, begin + kSecondNs / 20, 10'000));
  EXPECT_GE(now_ns() - begin, kSecondNs / 20);
  EXPECT_LT(now_ns() - begin, 10 * kSecondNs) << "it would wait for ever";
}

TEST_F(DoorbellTest, RingsForNobodyDoNotPileUp) {
  for (int i = 0; i < 1000; ++i) shared_->ask.ring();
  const Nanoseconds begin = now_ns();
  EXPECT_FALSE(shared_->ask.wait([] { return false; }, begin + kSecondNs / 50, 0));
  EXPECT_GE(now_ns() - begin, kSecondNs / 50);
}

TEST_F(DoorbellTest, ASleeperCostsNoCpu) {
  rusage before = {};
  rusage after = {};
  getrusage(RUSAGE_SELF, &before);
  EXPECT_FALSE(shared_->ask.wait([] { return false; }, now_ns() + kSecondNs / 2, 50'000));
  getrusage(RUSAGE_SELF, &after);
  const auto used_us = (after.ru_utime.tv_sec - before.ru_utime.tv_sec) * 1'000'000 +
                       (after.ru_utime.tv_usec - before.ru_utime.tv_usec);
  EXPECT_LT(used_us, 100'000);
}

TEST_F(DoorbellTest, SurvivesTheDeathOfASleeper) {
  for (std::uint64_t epoch = 1; epoch <= 5; ++epoch) {
    fork_child([this] { shared_->ask.wait([] { return false; }, now_ns() + 60 * kSecondNs, 0); });
    usleep(20'000);
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
    shared_->ask.ring();
  }
  shared_->asked.store(0);
  shared_->answered.store(0);
  fork_echo(0);
  for (std::uint64_t epoch = 1; epoch <= 100; ++epoch) ASSERT_TRUE(ask(epoch, 0));
}

}  // namespace
}  // namespace zf
