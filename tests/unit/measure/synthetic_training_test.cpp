#include "measure/synthetic_training.hpp"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "../os/refuse_call.hpp"
#include "base/error.hpp"
#include "os/affinity.hpp"

namespace zf {
namespace {

constexpr Nanoseconds kMs = 1'000'000;
constexpr std::size_t kBuffer = std::size_t{4} << 20;

/// Runs a test in a process of its own, because oneTBB's threads stay until their process ends. Returns the
/// exit status.
int status_in_child(const std::function<int()>& work) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work());
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

/// Returns another thread of this process that is bound to other CPUs than these; 0 if there is none.
pid_t thread_outside(const CpuSet& cpus) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    const pid_t tid = std::stoi(entry.path().filename());
    if (tid != ::gettid() && thread_affinity(tid) != cpus) return tid;
  }
  return 0;
}

std::size_t thread_count() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) ++count;
  return count;
}

TEST(SyntheticTraining, EveryThreadIsBoundToTheReservedCores) {
  const CpuSet one{thread_affinity().last()};
  EXPECT_EQ(
      status_in_child([&] {
        SyntheticTraining training(one, 2, kBuffer, {50, 1000, kMs, 1 << 22, 1 << 20, 0, 1'000'000'000});
        training.start(2);
        training.wait();
        if (thread_count() < 4) return 1;  // this one, driver, copier and at least one of oneTBB
        return thread_outside(one) == 0 ? 0 : 2;
      }),
      0);
}

TEST(SyntheticTraining, AStepTakesAtLeastItsGpuTimeAndCountsItsBytes) {
  EXPECT_EQ(status_in_child([&] {
              const TrainingDemand demand{20, 1000, 30 * kMs, 1 << 20, 1 << 20, 0, 10'000'000'000};
              SyntheticTraining training(thread_affinity(), 1, kBuffer, demand);
              training.start(3);
              const TrainingReading reading = training.wait();
              if (reading.step_ns < 30 * kMs) return 1;
              if (reading.bytes != 2 << 20) return 2;  // once per update
              return reading.launch_delay_p99_ns > 0 &&
                             reading.launch_delay_p99_ns >= reading.launch_delay_p50_ns
                         ? 0
                         : 3;
            }),
            0);
}

TEST(SyntheticTraining, AChainOfLaunchesLongerThanTheGpusTimeIsWhatAStepTakes) {
  EXPECT_EQ(status_in_child([&] {
              SyntheticTraining training(thread_affinity(), 1, kBuffer, {100, kMs / 2, kMs});
              training.start(1);
              return training.wait().step_ns >= 50 * kMs ? 0 : 1;
            }),
            0);
}

/// Returns the CPU time of this process.
Nanoseconds cpu_time_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return time.tv_sec * kSecondNs + time.tv_nsec;
}

TEST(SyntheticTraining, ComputingUsesItsCpuTimeOnAllThreadsTogether) {
  EXPECT_EQ(status_in_child([&] {
              SyntheticTraining training(thread_affinity(), 2, kBuffer,
                                         {1, 10 * kMs, 0, 0, 0, 0, 0, {}, 100 * kMs});
              const Nanoseconds before = cpu_time_ns();
              training.start(2);
              if (training.wait().step_ns < 60 * kMs) return 1;  // 10 ms, then 100 ms on at most two CPUs
              return cpu_time_ns() - before >= 220 * kMs ? 0 : 2;
            }),
            0);
}

TEST(SyntheticTraining, CopiesAreNoFasterThanTheirPace) {
  EXPECT_EQ(
      status_in_child([&] {
        // 8 MiB at 100 MB/s: the last piece is due after 75 ms.
        SyntheticTraining training(thread_affinity(), 1, kBuffer, {0, 0, 0, 0, 8 << 20, 0, 100'000'000});
        training.start(1);
        return training.wait().step_ns >= 75 * kMs ? 0 : 1;
      }),
      0);
}

TEST(SyntheticTraining, NothingToDoIsDoneAtOnce) {
  EXPECT_EQ(status_in_child([&] {
              SyntheticTraining training(thread_affinity(), 1, 0, {});
              training.start(1);
              const TrainingReading reading = training.wait();
              return reading.bytes == 0 && reading.launch_delay_p99_ns == 0 ? 0 : 1;
            }),
            0);
}

TEST(SyntheticTraining, CpusThatAreNotThereAreAnError) {
  EXPECT_EQ(status_in_child([&] {
              try {
                SyntheticTraining training(CpuSet{Pu{60000}}, 1, kBuffer, {});
              } catch (const Error&) {
                return 0;
              }
              return 1;
            }),
            0);
}

/// The threads of parallel work are not oneTBB's, so each kind of training starts its own.
TEST(SyntheticTraining, RefusedThreadsAreAnErrorWithItsReason) {
  const TrainingDemand computing{1, kMs, 0, 0, 0, 0, 0, {}, kMs};
  const TrainingDemand launching{50, 1000, kMs, 0, 0, 0, 0};
  for (const TrainingDemand& demand : {computing, launching}) {
    const int status = status_in_child([&] {
      refuse_call(SYS_clone3, EAGAIN);
      refuse_call(SYS_clone, EAGAIN);
      try {
        SyntheticTraining training(thread_affinity(), 2, kBuffer, demand);
      } catch (const Error& error) {
        return std::string_view(error.what()).ends_with(kTaskLimitHint) ? 0 : 1;
      }
      return 2;
    });
    if (status == kNoFilters) GTEST_SKIP() << "seccomp filters are not to be had here";
    EXPECT_EQ(status, 0);
  }
}

}  // namespace
}  // namespace zf
