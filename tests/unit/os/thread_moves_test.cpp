#include "os/thread_moves.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <future>
#include <map>
#include <thread>

#include "base/error.hpp"
#include "os/affinity.hpp"

namespace zf {
namespace {

using testing::HasSubstr;

const CpuSet kHome = {Pu{0}, Pu{1}, Pu{2}, Pu{3}};
const CpuSet kTraining = {Pu{0}, Pu{1}};
const CpuSet kOther = {Pu{2}};

/// A simulated process. `before_pass` and `on_set` change it while it is being looked at.
struct Process {
  std::map<pid_t, CpuSet> masks;
  std::function<void(int)> before_pass = [](int) {};
  std::function<void(pid_t)> on_set = [](pid_t) {};
  int passes = 0;

  ThreadTable table() {
    return {.list =
                [this] {
                  before_pass(++passes);
                  std::vector<ThreadMask> threads;
                  for (const auto& [tid, cpus] : masks) threads.push_back({tid, cpus});
                  return threads;
                },
            .set = [this](pid_t tid, const CpuSet& cpus) -> std::optional<CpuSet> {
              on_set(tid);
              const auto found = masks.find(tid);
              if (found == masks.end()) return std::nullopt;
              return found->second = cpus;
            }};
  }
};

TEST(ThreadMoves, MoveOnlyThreadsWithExactlyThatMask) {
  Process process{.masks = {{1, kHome}, {2, kOther}, {3, kHome}, {4, kTraining}}};
  const MovedThreads moved = move_threads(process.table(), kHome, kTraining);
  EXPECT_EQ(moved.moved, 2U);
  EXPECT_EQ(moved.problem, "");
  EXPECT_EQ(process.masks,
            (std::map<pid_t, CpuSet>{{1, kTraining}, {2, kOther}, {3, kTraining}, {4, kTraining}}));
}

TEST(ThreadMoves, CatchAThreadThatIsStartedMeanwhile) {
  Process process{.masks = {{1, kHome}, {2, kHome}}};
  process.on_set = [&](pid_t tid) {
    if (tid == 2) process.masks.emplace(3, kHome);  // thread 2 starts it before its own turn
  };
  EXPECT_EQ(move_threads(process.table(), kHome, kTraining).moved, 3U);
  EXPECT_EQ(process.masks.at(3), kTraining);
}

TEST(ThreadMoves, LookAgainAfterANewThreadWithAnyMask) {
  // Thread 9 appears, and its own child, with the mask of the home, only after it.
  Process process{.masks = {{1, kOther}}};
  process.before_pass = [&](int pass) {
    if (pass == 2) process.masks.emplace(9, kOther);
    if (pass == 3) process.masks.emplace(10, kHome);
  };
  EXPECT_EQ(move_threads(process.table(), kHome, kTraining).moved, 1U);
  EXPECT_EQ(process.masks.at(10), kTraining);
}

TEST(ThreadMoves, AThreadThatEndsIsNoProblem) {
  Process process{.masks = {{1, kHome}, {2, kHome}}};
  process.on_set = [&](pid_t tid) {
    if (tid == 2) process.masks.erase(2);
  };
  const MovedThreads moved = move_threads(process.table(), kHome, kTraining);
  EXPECT_EQ(moved.moved, 1U);
  EXPECT_EQ(moved.problem, "");
}

TEST(ThreadMoves, ARefusalIsTheProblemAndTheOthersAreMoved) {
  Process process{.masks = {{1, kHome}, {2, kHome}}};
  process.on_set = [&](pid_t tid) {
    if (tid == 1) throw Error(Exit::runtime_error, "not permitted");
  };
  const MovedThreads moved = move_threads(process.table(), kHome, kTraining);
  EXPECT_EQ(moved.moved, 1U);
  EXPECT_EQ(moved.problem, "thread 1: not permitted");
}

TEST(ThreadMoves, AMaskThatTheKernelTrimsIsAProblem) {
  Process process{.masks = {{1, kHome}}};
  ThreadTable table = process.table();
  table.set = [&](pid_t tid, const CpuSet&) -> std::optional<CpuSet> {
    return process.masks.at(tid) = CpuSet{Pu{0}};
  };
  const MovedThreads moved = move_threads(table, kHome, kTraining);
  EXPECT_EQ(moved.moved, 0U);
  EXPECT_EQ(moved.problem, "thread 1 has the mask 0 instead of 0-1");
}

TEST(ThreadMoves, GiveUpAProcessThatStartsThreadsForEver) {
  Process process{.masks = {{1, kHome}}};
  process.before_pass = [&](int pass) { process.masks.emplace(100 + pass, kHome); };
  const MovedThreads moved = move_threads(process.table(), kHome, kTraining);
  EXPECT_EQ(process.passes, kMostPasses);
  EXPECT_THAT(moved.problem, HasSubstr("still being started"));
}

TEST(ThreadMoves, RealThreadsMoveAndTheirMasksAreReadBack) {
  const CpuSet all = thread_affinity();
  if (all.size() < 2) GTEST_SKIP() << "needs two CPUs";
  std::promise<void> end;
  const std::shared_future<void> ended = end.get_future().share();
  std::promise<pid_t> tid;
  std::thread other([&] {
    bind_this_thread({all.last()});
    tid.set_value(gettid());
    ended.wait();
  });
  const pid_t found = tid.get_future().get();
  // No thread of the test but this one has a mask of the last CPU alone.
  const MovedThreads moved = move_threads(own_threads(), {all.last()}, {all.first()});
  EXPECT_EQ(moved.moved, 1U);
  EXPECT_EQ(thread_affinity(found), CpuSet{all.first()});
  EXPECT_EQ(thread_affinity(), all);
  end.set_value();
  other.join();
}

}  // namespace
}  // namespace zf
