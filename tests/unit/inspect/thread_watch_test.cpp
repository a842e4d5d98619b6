#include "inspect/thread_watch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "../os/cpus.hpp"
#include "../os/tree.hpp"
#include "base/cpu_list.hpp"
#include "inspect/live_threads.hpp"
#include "inspect/watched_moves.hpp"

namespace zf {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Simulated {
  std::uint64_t started = 0;
  CpuSet cpus;
};

/// A job. The test starts, moves and ends its threads.
class Job {
 public:
  ThreadSource source() {
    return {.list =
                [this] {
                  std::vector<ThreadId> ids;
                  for (const auto& [id, thread] : threads) ids.push_back(id);
                  return ids;
                },
            .cpus = [this](const ThreadId& id) { return std::optional(threads.at(id).cpus); },
            .started =
                [this](const ThreadId& id) {
                  ++starts_read;
                  return std::optional(threads.at(id).started);
                },
            .now = [this] { return now; },
            .ticks_per_s = 100};
  }

  std::map<ThreadId, Simulated> threads;
  int starts_read = 0;
  std::uint64_t now = 1000;
};

constexpr ThreadId kMain{100, 100};
constexpr ThreadId kOther{100, 101};
constexpr ThreadId kBinding{100, 102};

TEST(ThreadWatch, AMovedThreadIsNamedOnceAndAgainWhenItMovesBack) {
  Job job;
  job.threads[kMain] = {1, cpus("0-7")};
  job.threads[kOther] = {2, cpus("0-7")};
  ThreadWatch watch(job.source());
  EXPECT_THAT(watch.look(), IsEmpty());
  EXPECT_EQ(watch.threads(), 2U);
  job.threads[kMain].cpus = cpus("0-63");
  EXPECT_THAT(watch.look(), ElementsAre(ThreadMove{kMain, cpus("0-7"), cpus("0-63")}));
  EXPECT_THAT(watch.look(), IsEmpty());
  job.threads[kMain].cpus = cpus("0-7");
  EXPECT_THAT(watch.look(), ElementsAre(ThreadMove{kMain, cpus("0-63"), cpus("0-7")}));
}

TEST(ThreadWatch, AProcessThatBindsItselfIsNoAlarm) {
  Job job;
  job.threads[kMain] = {1, cpus("0-7")};
  job.threads[kOther] = {2, cpus("0-7")};
  ThreadSource source = job.source();
  source.binding_thread = [](int pid) { return pid == 100 ? std::optional(kBinding) : std::nullopt; };
  ThreadWatch watch(source);
  watch.look();
  job.threads[kBinding] = {1000, cpus("0-3")};
  job.threads[kMain].cpus = cpus("0-3");
  job.threads[kOther].cpus = cpus("4-7");
  EXPECT_THAT(watch.look(), ElementsAre(ThreadMove{kOther, cpus("0-7"), cpus("4-7")}));
  job.threads[kMain].cpus = cpus("0-63");
  EXPECT_THAT(watch.look(), ElementsAre(ThreadMove{kMain, cpus("0-3"), cpus("0-63")}));
}

TEST(ThreadWatch, AMoveOfAllThreadsIsSeenThoughTheBindingThreadMovesToo) {
  Job job;
  job.threads[kMain] = {1, cpus("0-3")};
  job.threads[kBinding] = {2, cpus("0-3")};
  ThreadSource source = job.source();
  source.binding_thread = [](int) { return std::optional(kBinding); };
  ThreadWatch watch(source);
  watch.look();
  for (const char* list : {"0-63", "4-7"}) {
    const CpuSet before = job.threads[kMain].cpus;
    job.threads[kMain].cpus = job.threads[kBinding].cpus = cpus(list);
    EXPECT_THAT(watch.look(),
                ElementsAre(ThreadMove{kMain, before, cpus(list)}, ThreadMove{kBinding, before, cpus(list)}));
    EXPECT_THAT(watch.look(), IsEmpty());
  }
}

TEST(ThreadWatch, MovesBetweenTheHomeAndItsTrainingSideAreOurRuntimes) {
  Job job;
  job.threads[kMain] = {1, cpus("0-7")};
  ThreadSource source = job.source();
  bool is_open = true;
  source.sides = [&](int pid) {
    return pid == 100 ? std::optional(ProcessSides{cpus("0-7"), cpus("0-3"), is_open}) : std::nullopt;
  };
  ThreadWatch watch(source);
  watch.look();
  const auto move_to = [&](const char* list) {
    job.threads[kMain].cpus = cpus(list);
    return watch.look();
  };
  EXPECT_THAT(move_to("0-3"), IsEmpty());
  is_open = false;
  EXPECT_THAT(move_to("0-7"), IsEmpty());
  const ThreadMove narrowed{kMain, cpus("0-7"), cpus("0-3")}, leaked{kMain, cpus("0-3"), cpus("0-7")};
  EXPECT_THAT(move_to("0-3"), ElementsAre(narrowed)) << "though no runtime is open";
  is_open = true;
  EXPECT_THAT(move_to("0-7"), ElementsAre(leaked)) << "as NCCL does beside an open one";
  EXPECT_THAT(move_to("4-7"), ElementsAre(ThreadMove{kMain, cpus("0-7"), cpus("4-7")}));
  EXPECT_THAT(move_to("0-3"), ElementsAre(ThreadMove{kMain, cpus("4-7"), cpus("0-3")}));
}

TEST(ThreadWatch, AThreadMayPlaceItselfInItsFirstSecondHoweverOftenItWasSeen) {
  Job job;
  job.threads[kMain] = {1, cpus("0-7")};
  ThreadWatch watch(job.source());
  watch.look();
  job.threads[kOther] = {1005, cpus("0-7")};
  const auto look_at = [&](std::uint64_t now, const char* list) {
    job.now = now;
    job.threads[kOther].cpus = cpus(list);
    return watch.look();
  };
  EXPECT_THAT(look_at(1010, "0-7"), IsEmpty());
  EXPECT_THAT(look_at(1060, "0-7"), IsEmpty());
  EXPECT_THAT(look_at(1110, "3"), IsEmpty()) << "it may have moved 0.95 s after its start";
  EXPECT_THAT(look_at(1160, "4"), ElementsAre(ThreadMove{kOther, cpus("3"), cpus("4")}));
}

TEST(ThreadWatch, SoMayAThreadThatBeganJustBeforeTheFirstLook) {
  Job job;
  job.threads[kMain] = {950, cpus("0-7")};
  ThreadWatch watch(job.source());
  watch.look();
  job.now = 1050;
  job.threads[kMain].cpus = cpus("3");
  EXPECT_THAT(watch.look(), IsEmpty());
  job.now = 1100;
  job.threads[kMain].cpus = cpus("4");
  EXPECT_THAT(watch.look(), IsEmpty()) << "the look before came 1 s after its start, rounded down";
  job.now = 1150;
  job.threads[kMain].cpus = cpus("5");
  EXPECT_THAT(watch.look(), ElementsAre(ThreadMove{kMain, cpus("4"), cpus("5")}));
}

TEST(ThreadWatch, WhereStartsAreNotSaidAThreadMayPlaceItselfUntilTheSecondLook) {
  Job job;
  job.threads[kMain] = {0, cpus("0-7")};
  ThreadWatch watch(job.source());
  watch.look();
  job.threads[kOther] = {0, cpus("0-7")};
  EXPECT_THAT(watch.look(), IsEmpty());
  job.threads[kOther].cpus = cpus("3");
  EXPECT_THAT(watch.look(), IsEmpty());
  job.threads[kOther].cpus = cpus("4");
  EXPECT_THAT(watch.look(), ElementsAre(ThreadMove{kOther, cpus("3"), cpus("4")}));
}

TEST(ThreadWatch, ANumberThatAnotherThreadHasNowIsNoMove) {
  Job job;
  job.threads[kMain] = {1, cpus("0-7")};
  job.threads[kOther] = {2, cpus("0-7")};
  ThreadWatch watch(job.source());
  watch.look();
  job.threads[kOther] = {3, cpus("5")};
  EXPECT_THAT(watch.look(), IsEmpty());
  job.threads.erase(kOther);
  EXPECT_THAT(watch.look(), IsEmpty());
  EXPECT_EQ(watch.threads(), 1U);
}

TEST(ThreadWatch, ReadsNoFileOfAThreadThatStays) {
  Job job;
  job.threads[kMain] = {1, cpus("0-7")};
  ThreadWatch watch(job.source());
  watch.look();
  const int after_first = job.starts_read;
  for (int look = 0; look < 10; ++look) watch.look();
  EXPECT_EQ(job.starts_read, after_first);
}

TEST(LiveThreads, AProcessHasItsDescendantsWhateverTheirNumbers) {
  Tree tree;
  const auto process = [&](int pid, int parent) {
    tree.file("/proc/" + std::to_string(pid) + "/stat",
              std::to_string(pid) + " (a) b) S " + std::to_string(parent) + " 1 1");
  };
  process(50, 90);
  process(90, 100);
  process(100, 1);
  process(200, 1);
  EXPECT_THAT(with_descendants(tree.sysroot(), {100}), ElementsAre(50, 90, 100));
}

TEST(LiveThreads, AThreadIsCalledByItsNameElseByItsLibrary) {
  Tree tree;
  const auto thread = [&](int tid, const char* name, const char* syscall) {
    const std::string folder = "/proc/100/task/" + std::to_string(tid);
    tree.file(folder + "/comm", name).file(folder + "/syscall", syscall);
  };
  tree.file("/proc/100/comm", "python3");
  tree.file("/proc/100/maps",
            "55d0c0000000-55d0c0001000 r-xp 00000000 08:01 7   /usr/bin/python3.11\n"
            "7f0000000000-7f0000010000 r-xp 00000000 08:01 8   /usr/lib/libnccl.so.2\n"
            "7f0000010000-7f0000020000 r-xp 00000000 08:01 9   /usr/lib/libc.so.6\n"
            "7f0000020000-7f0000030000 rw-p 00000000 00:00 0 ");
  thread(100, "python3", "7 0x1 0x2 0x7ffd 0x7f0000000010");
  thread(101, "NCCL Service 0", "7 0x1 0x2 0x7ffd 0x7f0000010010");
  thread(102, "python3", "202 0x1 0x2 0x7ffd 0x7f0000000010");
  thread(103, "python3", "202 0x1 0x2 0x7ffd 0x7f0000010010");
  thread(104, "python3", "running");
  thread(105, "python3", "202 0x1 0x2 0x7ffd 0x7f0000020010");
  const auto name = [&](int tid) { return name_of_thread(tree.sysroot(), {100, tid}); };
  EXPECT_EQ(name(100), "the main thread");
  EXPECT_EQ(name(101), "NCCL Service 0");
  EXPECT_EQ(name(102), "unnamed, in libnccl.so.2");
  EXPECT_EQ(name(103), "unnamed");
  EXPECT_EQ(name(104), "unnamed");
  EXPECT_EQ(name(105), "unnamed");
}

TEST(WatchedMoves, LooksThatWereMissedAreNotMadeUpFor) {
  EXPECT_EQ(next_look(1000, 1200), 1000 + kLookInterval);
  EXPECT_EQ(next_look(1000, 900), 1000 + kLookInterval);
  EXPECT_EQ(next_look(1000, 1000 + 60 * kSecondNs + 7), 1000 + 60 * kSecondNs + kLookInterval);
}

TEST(WatchedMoves, InWordsSayWhoWhenAndFromWhereToWhere) {
  WatchedMoves watched{.for_ns = 60 * kSecondNs, .looks = 121, .threads = 12};
  EXPECT_EQ(in_words(watched), "watched 12 threads for 60.0 s: none was moved");
  watched.moves.push_back(
      {12'500 * kMillisecondNs, {kOther, cpus("0-7"), cpus("0-63")}, "python3", "NCCL Service 0"});
  EXPECT_EQ(in_words(watched.moves[0]),
            "12.5 s: process 100 (python3), thread 101 (NCCL Service 0): moved from CPUs 0-7 to CPUs 0-63");
  watched.has_ended = true;
  EXPECT_EQ(in_words(watched), "watched 12 threads for 60.0 s: 1 move; the job has ended");
}

}  // namespace
}  // namespace zf
