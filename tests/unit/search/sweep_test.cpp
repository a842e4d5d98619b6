// Tests the search on imaginary machines, on which bandwidth grows with the pool until memory is saturated.
#include "search/sweep.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "base/error.hpp"
#include "search/contest.hpp"
#include "search/tuning.hpp"

namespace zf {
namespace {

/// Returns homes of `cores` single-PU cores each, in one L3 group and one node.
std::vector<Home> homes(int ranks, int cores) {
  std::vector<Home> result;
  int next = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    Home home;
    for (int core = 0; core < cores; ++core) home.cores.push_back({{Pu{next++}}, Node{0}, 0, 0});
    home.mems = {Node{0}};
    home.shared = cores < 2;
    result.push_back(home);
  }
  return result;
}

/// Returns a workload without a training side.
Workload alone(int ranks) { return {"test", 1'000'000, ranks, 1, {}, Mode::overlap}; }

/// Each thread adds one unit of bandwidth until `saturation` threads (of all ranks) use all of it.
class SaturatingMeter : public Meter {
 public:
  SaturatingMeter(int saturation, double noise) : saturation_(saturation), noise_(noise) {}

  std::vector<SplitSample> measure(const Split& split, const VisitLimits& limits) override {
    ++visits;
    if (!limits.stop) ++visits_without_stop;
    labels.push_back(split.label);
    int threads = 0;
    for (const RankSplit& rank : split.ranks) threads += static_cast<int>(rank.pool.size());
    const double step_ns = 1e9 / std::min(threads, saturation_);
    std::vector<SplitSample> result;
    for (int i = 0; i < limits.samples; ++i) {
      const double factor = 1 + noise_ * normal_(random_);
      SplitSample sample;
      sample.step_ns = static_cast<Nanoseconds>(step_ns * factor);
      sample.roofline_ns = static_cast<Nanoseconds>(step_ns * factor * 0.95);
      result.push_back(sample);
    }
    return result;
  }
  std::uint64_t elements_per_rank() const override { return 1'000'000; }
  double scale() const override { return 1; }
  std::string isa() const override { return "scalar"; }
  Nanoseconds now() const override { return 10 * kSecondNs * visits; }

  int visits = 0;
  int visits_without_stop = 0;
  std::vector<std::string> labels;

 private:
  int saturation_;
  double noise_;
  std::mt19937 random_{11};
  std::normal_distribution<double> normal_;
};

/// Sweeps this machine and returns what is chosen.
CandidateEvidence chosen_after(Meter& meter, const std::vector<Home>& on, const SweepLimits& limits = {}) {
  const Workload workload = alone(static_cast<int>(on.size()));
  const SweepResult result = sweep(on, workload, meter, limits, nullptr);
  return result.evidence.candidates[decide(contest_of(result.evidence, workload)).winner];
}

/// A visit may take an hour, so the sweep's own look between visits is not enough.
TEST(Sweep, EachVisitCanBeStopped) {
  SaturatingMeter meter(4, 0.01);
  SweepLimits limits;
  limits.stop = [] { return false; };
  chosen_after(meter, homes(1, 8), limits);
  EXPECT_GT(meter.visits, 3);
  EXPECT_EQ(meter.visits_without_stop, 0);
}

TEST(Sweep, StopsAtTheKneeAndLeavesTheRestToTraining) {
  for (const int saturation : {1, 2, 3, 5, 7, 11, 20}) {
    SaturatingMeter meter(saturation, 0);
    const CandidateEvidence chosen = chosen_after(meter, homes(1, 32));
    EXPECT_EQ(chosen.pool_threads, saturation);
    EXPECT_EQ(chosen.reserved_cores, 32 - saturation);
  }
}

TEST(Sweep, FindsTheKneeWithinOneThreadUnderNoise) {
  SaturatingMeter meter(6, 0.01);
  EXPECT_THAT(chosen_after(meter, homes(1, 24)).pool_threads, testing::AllOf(testing::Ge(5), testing::Le(7)));
}

TEST(Sweep, MeasuresAllRanksTogether) {
  SaturatingMeter meter(8, 0);
  EXPECT_EQ(chosen_after(meter, homes(4, 8)).pool_threads, 2) << "4 ranks share the bandwidth of 8 threads";
}

TEST(Sweep, TheControlsAreAlwaysInTheTable) {
  for (const int cores : {4, 16, 33}) {
    SaturatingMeter meter(3, 0.01);
    chosen_after(meter, homes(2, cores));
    for (const char* control : {"shared home", "half and half", "80/20", "unbound"})
      EXPECT_THAT(meter.labels, testing::Contains(control)) << cores;
  }
}

TEST(Sweep, ComparesOnlyWhatWasVisitedInOneRound) {
  SaturatingMeter meter(6, 0.02);
  const SweepResult result = sweep(homes(1, 24), alone(1), meter, {}, nullptr);
  std::map<int, std::set<int>> rounds;
  for (const Sample& sample : result.evidence.samples) rounds[sample.round].insert(sample.candidate);
  ASSERT_GE(rounds.size(), 2U);
  for (const auto& [round, candidates] : rounds) EXPECT_GE(candidates.size(), 2U) << "round " << round;
}

TEST(Sweep, TheChoiceIsEstimatedByVisitsOfItsOwn) {
  SaturatingMeter meter(6, 0.01);
  const SweepResult result = sweep(homes(1, 16), alone(1), meter, {}, nullptr);
  const Evidence& evidence = result.evidence;
  ASSERT_GT(evidence.estimate_round, 0);
  std::map<int, std::set<int>> rounds;
  for (const Sample& sample : evidence.samples) {
    if (sample.round >= evidence.estimate_round) rounds[sample.candidate].insert(sample.round);
  }
  EXPECT_EQ(rounds.size(), 4U) << "the choice, its runner-up, unbound, the shared home";
  for (const auto& [candidate, of] : rounds) EXPECT_EQ(of.size(), 3U) << candidate;
  EXPECT_TRUE(rounds.contains(choose(evidence, alone(1)).candidate));
}

TEST(Sweep, ATooShortBudgetIsSaidWithOneThatWouldTell) {
  // A visit takes 10 s of the meter's clock.
  SaturatingMeter meter(6, 0.001);
  const SweepResult brief = sweep(homes(1, 8), alone(1), meter, {.budget_ns = 45 * kSecondNs}, nullptr);
  EXPECT_EQ(brief.visits, 4) << "each control once";
  EXPECT_EQ(brief.telling_budget_ns, 600 * kSecondNs) << "60 visits";

  SaturatingMeter again(6, 0.001);
  EXPECT_EQ(sweep(homes(1, 8), alone(1), again, {.budget_ns = 3600 * kSecondNs}, nullptr).telling_budget_ns,
            0);
  SaturatingMeter stopped(6, 0.001);
  SweepLimits limits{.budget_ns = 100 * kSecondNs};
  limits.stop = [&] { return stopped.visits >= 3; };
  EXPECT_EQ(sweep(homes(1, 8), alone(1), stopped, limits, nullptr).telling_budget_ns, 0) << "it had time";
}

/// Makes each visit up to several times as long as it would be: other jobs use the same cores.
class OverloadedMeter : public SaturatingMeter {
 public:
  explicit OverloadedMeter(unsigned seed) : SaturatingMeter(4, 0.2), random_(seed) {}
  std::vector<SplitSample> measure(const Split& split, const VisitLimits& limits) override {
    auto result = SaturatingMeter::measure(split, limits);
    const double load = std::exp(0.6 * normal_(random_));
    for (SplitSample& sample : result) {
      sample.step_ns = static_cast<Nanoseconds>(static_cast<double>(sample.step_ns) * load);
      sample.roofline_ns = static_cast<Nanoseconds>(static_cast<double>(sample.roofline_ns) * load);
    }
    return result;
  }

 private:
  std::mt19937 random_;
  std::normal_distribution<double> normal_;
};

TEST(Sweep, UnderLoadThatHidesAllDifferencesThePlanIsTheSharedHome) {
  constexpr unsigned kSeeds = 400 / ZF_FEWER;
  unsigned others = 0;
  unsigned silent = 0;
  for (unsigned seed = 1; seed <= kSeeds; ++seed) {
    OverloadedMeter meter(seed);
    SweepLimits limits;
    limits.seed = seed;
    const SweepResult result = sweep(homes(1, 8), alone(1), meter, limits, nullptr);
    const Choice choice = choose(result.evidence, alone(1));
    if (result.evidence.noise_floor <= 0.2 && result.evidence.accuracy_reached <= 0.2) ++silent;
    if (result.splits[static_cast<std::size_t>(choice.candidate)].shape.control != Control::shared) ++others;
  }
  EXPECT_LE(silent, 1 + kSeeds / 100) << "few visits may agree by luck";
  EXPECT_LE(others, 1 + kSeeds * 6 / 100) << "a decision at 95 % errs in one of twenty";
}

TEST(Sweep, ANoisyMachineIsVisitedMoreOften) {
  SaturatingMeter calm(6, 0.001);
  SaturatingMeter noisy(6, 0.1);
  chosen_after(calm, homes(1, 8));
  chosen_after(noisy, homes(1, 8));
  EXPECT_GT(noisy.visits, calm.visits);
}

TEST(Sweep, WithoutABudgetItFollowsFromTheFirstVisit) {
  SaturatingMeter meter(6, 0.001);
  EXPECT_EQ(sweep(homes(1, 8), alone(1), meter, {}, nullptr).budget_ns, 600 * kSecondNs)
      << "a visit takes ten seconds";
  SweepLimits limits;
  limits.budget_ns = 70 * kSecondNs;
  SaturatingMeter again(6, 0.001);
  EXPECT_EQ(sweep(homes(1, 8), alone(1), again, limits, nullptr).budget_ns, limits.budget_ns);
  EXPECT_LE(again.visits, 7);
}

TEST(Sweep, VisitsGrowWithTheLogarithmOfTheCores) {
  int before = 0;
  for (int cores = 8; cores <= 512; cores *= 2) {
    SaturatingMeter meter(cores / 3, 0);
    chosen_after(meter, homes(1, cores));
    if (before != 0) {
      EXPECT_LE(meter.visits, before + 7) << cores << " cores";  // 3 if the shared home is no runner-up
    }
    before = meter.visits;
  }
  EXPECT_LE(before, 45);
}

/// Disturbs every third roofline.
class DisturbedMeter : public SaturatingMeter {
 public:
  DisturbedMeter(double factor, int every) : SaturatingMeter(3, 0), factor_(factor), every_(every) {}
  std::vector<SplitSample> measure(const Split& split, const VisitLimits& limits) override {
    auto result = SaturatingMeter::measure(split, limits);
    for (SplitSample& sample : result) {
      if (++count_ % every_ != 0) continue;
      sample.roofline_ns = static_cast<Nanoseconds>(static_cast<double>(sample.roofline_ns) * factor_);
    }
    return result;
  }

 private:
  double factor_;
  int every_;
  int count_ = 0;
};

TEST(Sweep, WhatCannotBeIsMeasuredAgain) {
  for (const double factor : {3.0, 0.05}) {
    DisturbedMeter meter(factor, 3);
    const SweepResult result = sweep(homes(1, 8), alone(1), meter, {}, nullptr);
    for (const Sample& sample : result.evidence.samples) EXPECT_TRUE(is_possible(sample.times, 0));
    EXPECT_THAT(result.warnings, testing::IsEmpty());
  }
}

TEST(Sweep, ButNotForEverAndThenItWarns) {
  DisturbedMeter meter(3, 1);
  SweepLimits limits;
  limits.budget_ns = 1;
  const SweepResult result = sweep(homes(1, 2), alone(1), meter, limits, nullptr);
  EXPECT_LE(meter.visits, 3);
  EXPECT_THAT(result.warnings, testing::Contains(testing::HasSubstr("do not trust")));
}

/// Spread pools step slower, but disturb training less. The smallest of them is hopeless, and in its visit,
/// which ends after three periods, one training step is an outlier.
class SpreadMeter : public SaturatingMeter {
 public:
  SpreadMeter() : SaturatingMeter(1, 0) {}
  std::vector<SplitSample> measure(const Split& split, const VisitLimits& limits) override {
    ++visits;
    labels.push_back(split.label);
    const RankSplit& rank = split.ranks[0];
    const bool spread = split.shape.placement == Placement::spread;
    const Nanoseconds step = (spread ? 640 / rank.pool_cores : 30) * kMillisecondNs;
    std::vector<SplitSample> result(
        static_cast<std::size_t>(step > limits.hopeless_ns ? kHopelessSamples : limits.samples));
    for (SplitSample& sample : result) {
      sample.step_ns = sample.roofline_ns = step;
      sample.training_ns = (spread ? 80 : 100) * kMillisecondNs;
    }
    if (step > limits.hopeless_ns) result[0].training_ns = 120 * kMillisecondNs;
    return result;
  }
};

TEST(Sweep, AnOutlierInAHopelessVisitDoesNotRuleOutLargerPools) {
  std::vector<Home> home = homes(1, 32);
  for (std::size_t core = 0; core < 32; ++core) home[0].cores[core].l3 = static_cast<int>(core / 8);
  SpreadMeter meter;
  const CandidateEvidence chosen = chosen_after(meter, home);
  EXPECT_EQ(chosen.placement, Placement::spread);
  EXPECT_EQ(chosen.period_ns_median, 80 * kMillisecondNs);
}

TEST(Sweep, ABudgetOfNothingStillMeasuresOnce) {
  SaturatingMeter meter(3, 0);
  SweepLimits limits;
  limits.budget_ns = 1;
  const SweepResult result = sweep(homes(1, 8), alone(1), meter, limits, nullptr);
  EXPECT_EQ(meter.visits, 1);
  EXPECT_EQ(result.evidence.candidates.size(), 1U) << "only measured splits are evidence";
  EXPECT_EQ(choose(result.evidence, alone(1)).candidate, 0) << "and it can be chosen";
}

TEST(Sweep, OneCoreIsAMeasuredCandidateToo) {
  SaturatingMeter meter(3, 0);
  const SweepResult result = sweep(homes(1, 1), alone(1), meter, {}, nullptr);
  EXPECT_EQ(result.evidence.candidates.size(), 1U);
  EXPECT_EQ(choose(result.evidence, alone(1)).candidate, 0);
}

/// Fails from the third visit on, as when a CPU leaves.
class ShrinkingMeter : public SaturatingMeter {
 public:
  ShrinkingMeter(int good_visits) : SaturatingMeter(4, 0.01), good_visits_(good_visits) {}
  std::vector<SplitSample> measure(const Split& split, const VisitLimits& limits) override {
    if (visits == good_visits_) throw Error(Exit::runtime_error, "cannot bind to CPU 3: Invalid argument");
    return SaturatingMeter::measure(split, limits);
  }

 private:
  int good_visits_;
};

TEST(Sweep, ACpuThatLeavesEndsTheSweepWithWhatWasMeasured) {
  ShrinkingMeter meter(3);
  const SweepResult result = sweep(homes(1, 8), alone(1), meter, {.budget_ns = 3600 * kSecondNs}, nullptr);
  EXPECT_EQ(result.splits.size(), 3U);
  ASSERT_EQ(result.warnings.size(), 1U);
  EXPECT_THAT(result.warnings[0], testing::HasSubstr("the sweep was cut short: cannot bind to CPU 3"));
  EXPECT_TRUE(result.cut_short);
  EXPECT_GE(choose(result.evidence, alone(1)).candidate, 0);
}

TEST(Sweep, AFirstVisitThatFailsIsAnError) {
  ShrinkingMeter meter(0);
  EXPECT_THROW(sweep(homes(1, 8), alone(1), meter, {}, nullptr), Error);
}

TEST(Sweep, ABudgetShorterThanOneVisitIsSaid) {
  SaturatingMeter meter(4, 0.01);
  const SweepResult result = sweep(homes(1, 8), alone(1), meter, {.budget_ns = kSecondNs}, nullptr);
  EXPECT_EQ(result.visits, 1);
  ASSERT_EQ(result.warnings.size(), 1U);
  EXPECT_THAT(result.warnings[0],
              testing::HasSubstr("one visit took 10.00 s, longer than the whole budget of 1.00 s"));
}

}  // namespace
}  // namespace zf
