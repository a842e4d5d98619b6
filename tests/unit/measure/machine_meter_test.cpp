#include "measure/machine_meter.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "base/format.hpp"
#include "engine/working_set.hpp"
#include "os/affinity.hpp"

namespace zf {
namespace {

const RankWork kOptimizerAlone{.elements = 10'000, .isa = chosen_isa()};

Split pool_on(const std::vector<std::vector<Pu>>& ranks) {
  Split split;
  for (const auto& pool : ranks) {
    RankSplit rank;
    rank.pool = pool;
    split.ranks.push_back(rank);
  }
  return split;
}

TEST(MachineMeter, GivesAsManyPairsAsAskedFor) {
  const Pu pu = thread_affinity().first();
  MachineMeter meter(kOptimizerAlone, 1);
  const auto samples = meter.measure(pool_on({{pu}}), {.samples = 5});
  ASSERT_EQ(samples.size(), 5U);
  for (const SplitSample& sample : samples) {
    EXPECT_GT(sample.step_ns, 0);
    EXPECT_GT(sample.roofline_ns, 0);
  }
}

TEST(MachineMeter, APastDeadlineStillGivesTheLeastSamples) {
  MachineMeter meter(kOptimizerAlone, 1);
  EXPECT_EQ(meter.measure(pool_on({{thread_affinity().first()}}), {9, 0}).size(), Meter::kMinSamples);
}

TEST(MachineMeter, AHopelessVisitEndsAfterTwoPeriods) {
  MachineMeter meter(kOptimizerAlone, 1);
  const Split split = pool_on({{thread_affinity().first()}});
  EXPECT_EQ(meter.measure(split, {.samples = 9, .hopeless_ns = 1}).size(), Meter::kHopelessSamples);
  EXPECT_EQ(meter.measure(split, {.samples = 9, .hopeless_ns = 3600 * kSecondNs}).size(), 9U);
}

TEST(MachineMeter, TheSidesTakeTurnsWhereTrainingWaits) {
  const Pu pu = thread_affinity().first();
  RankSplit rank;
  rank.home = rank.training = rank.optimizer = {pu};
  rank.pool = {pu};
  rank.home_cores = rank.pool_cores = 1;
  rank.shared = true;
  // Training only waits for a GPU, and takes as long as the step: side by side, both would take about half of
  // their sum.
  RankWork work{.elements = 4'000'000, .isa = chosen_isa()};
  const Nanoseconds step_ns =
      MachineMeter(work, 1).measure({{}, "shared", {rank}}, {.samples = 4}).back().step_ns;
  work.training = TrainingDemand{1, 1000, step_ns};
  const auto begin_to_end = [&](Mode mode) {
    work.schedule.mode = mode;
    MachineMeter meter(work, 1);
    const Nanoseconds start = now_ns();
    const auto samples = meter.measure({{}, "shared", {rank}}, {.samples = 40});
    const Nanoseconds took = now_ns() - start;
    Nanoseconds sides = 0;
    for (const SplitSample& sample : samples) sides += sample.training_ns + sample.step_ns;
    return static_cast<double>(took) / static_cast<double>(sides);
  };
  EXPECT_GE(begin_to_end(Mode::wait), 1) << "one side after the other cannot take less than their sum";
}

TEST(MachineMeter, ATrainingStepOfAnHourIsNotWaitedForAfterStop) {
  const Pu pu = thread_affinity().first();
  RankSplit rank;
  rank.home = rank.training = rank.optimizer = {pu};
  rank.pool = {pu};
  rank.home_cores = rank.pool_cores = 1;
  rank.shared = true;
  RankWork work{
      .elements = 10'000, .training = TrainingDemand{1, 1000, 3600 * kSecondNs}, .isa = chosen_isa()};
  work.schedule.mode = Mode::wait;
  MachineMeter meter(work, 1);
  EXPECT_TRUE(meter.measure({{}, "shared", {rank}}, {.samples = 8, .stop = [] { return true; }}).empty());
}

/// Returns the bytes of shared memory that the children of this process have in memory; nothing if the kernel
/// does not say it.
std::optional<std::uint64_t> shared_bytes_of_children() {
  std::ifstream children(format_text("/proc/self/task/{}/children", ::gettid()));
  if (!children) return std::nullopt;
  std::uint64_t bytes = 0;
  for (pid_t child = 0; children >> child;) {
    std::ifstream status(format_text("/proc/{}/status", child));
    std::string word;
    while (status >> word) {
      std::uint64_t kibibytes = 0;
      if (word == "RssShmem:" && status >> kibibytes) bytes += kibibytes * 1024;
    }
  }
  return bytes;
}

/// Returns how many bytes of shared memory the ranks had at most while this work was measured.
std::uint64_t shared_memory_in_a_visit(const RankWork& work) {
  std::uint64_t most = 0;
  MachineMeter meter(work, 1);
  meter.measure(pool_on({{thread_affinity().first()}}), {.samples = 8, .stop = [&] {
                                                           most = std::max(most, *shared_bytes_of_children());
                                                           return false;
                                                         }});
  return most;
}

TEST(MachineMeter, OurOptimizersStateIsInSharedMemoryAsInTheRuntime) {
  if (!shared_bytes_of_children()) GTEST_SKIP() << "this kernel names no children (CONFIG_PROC_CHILDREN)";
  const RankWork native{.elements = 16'000'000, .isa = chosen_isa(), .framework = Framework::native};
  const RankWork torch{.elements = 16'000'000, .isa = chosen_isa(), .framework = Framework::torch};
  constexpr std::uint64_t kState = 16'000'000 * WorkingSet::kBytesPerElement;
  EXPECT_GT(shared_memory_in_a_visit(native), kState * 9 / 10);
  EXPECT_LT(shared_memory_in_a_visit(torch), kState / 2);
}

TEST(MachineMeter, LeavesTheCallersBindingAlone) {
  const CpuSet before = thread_affinity();
  MachineMeter meter(kOptimizerAlone, 1);
  meter.measure(pool_on({{before.first()}}), {.samples = 1});
  EXPECT_EQ(thread_affinity(), before);
}

TEST(MachineMeter, ARankThatCannotBeSetUpEndsTheVisitForAll) {
  const Pu pu = thread_affinity().first();
  MachineMeter meter(kOptimizerAlone, 1);
  EXPECT_THROW(meter.measure(pool_on({{pu}, {Pu{60000}}}), {.samples = 2}), Error);
  EXPECT_EQ(meter.measure(pool_on({{pu}}), {.samples = 1}).size(), 1U) << "and the next visit works";
}

}  // namespace
}  // namespace zf
