// The search against machines that are a formula: bandwidth grows with the pool until memory is saturated.
#include "tuner/sweep.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tuner/choose.hpp"
#include "tuner/statistics.hpp"

namespace zf {
namespace {

/// Homes of `cores` single-PU cores each, one L3, one node.
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

/// Each thread adds one unit of bandwidth until `saturation` threads (over all ranks) have all there is.
class SaturatingMeter : public Meter {
 public:
  SaturatingMeter(int saturation, double noise) : saturation_(saturation), noise_(noise) {}

  std::vector<SplitSample> measure(const Split& split, int samples, Nanoseconds) override {
    ++visits;
    int threads = 0;
    for (const RankSplit& rank : split.ranks) threads += static_cast<int>(rank.pool.size());
    const double step_ns = 1e9 / std::min(threads, saturation_);
    std::vector<SplitSample> result;
    for (int i = 0; i < samples; ++i) {
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

  int visits = 0;

 private:
  int saturation_;
  double noise_;
  std::mt19937 random_{11};
  std::normal_distribution<double> normal_;
};

TEST(Sweep, StopsAtTheKneeAndLeavesTheRestToTraining) {
  for (const int saturation : {1, 2, 3, 5, 7, 11, 20}) {
    SaturatingMeter meter(saturation, 0);
    const SweepResult result = sweep(homes(1, 32), 1, meter, {}, nullptr);
    EXPECT_EQ(knee_of(result.evidence).pool_threads, saturation);
    EXPECT_EQ(knee_of(result.evidence).reserved_cores, 32 - saturation);
  }
}

TEST(Sweep, FindsTheKneeWithinOneThreadUnderNoise) {
  SaturatingMeter meter(6, 0.01);
  const SweepResult result = sweep(homes(1, 24), 1, meter, {}, nullptr);
  EXPECT_THAT(knee_of(result.evidence).pool_threads, testing::AllOf(testing::Ge(5), testing::Le(7)));
}

TEST(Sweep, MeasuresAllRanksTogether) {
  SaturatingMeter meter(8, 0);
  const SweepResult result = sweep(homes(4, 8), 1, meter, {}, nullptr);
  EXPECT_EQ(knee_of(result.evidence).pool_threads, 2) << "4 ranks share the bandwidth of 8 threads";
}

TEST(Sweep, KeepsEverySampleAndVisitsCandidatesInTurn) {
  SaturatingMeter meter(3, 0.01);
  SweepLimits limits;
  limits.rounds = 4;
  const SweepResult result = sweep(homes(1, 8), 1, meter, limits, nullptr);
  const auto candidates = static_cast<int>(result.evidence.candidates.size());
  EXPECT_EQ(meter.visits, 4 * candidates);
  EXPECT_EQ(result.evidence.samples.size(),
            static_cast<std::size_t>(meter.visits * limits.samples_per_visit));
  for (int round = 0; round < 4; ++round) {
    std::vector<int> seen;
    for (const Sample& sample : result.evidence.samples) {
      if (sample.round == round) seen.push_back(sample.candidate);
    }
    std::sort(seen.begin(), seen.end());
    seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
    EXPECT_EQ(static_cast<int>(seen.size()), candidates);
  }
}

TEST(Sweep, ABudgetOfNothingStillMeasuresOnce) {
  SaturatingMeter meter(3, 0);
  SweepLimits limits;
  limits.budget_ns = 1;
  const SweepResult result = sweep(homes(1, 8), 1, meter, limits, nullptr);
  EXPECT_EQ(meter.visits, 1);
  EXPECT_EQ(result.evidence.candidates.size(), 1U) << "what was not measured is not evidence";
}

TEST(Sweep, OneCoreIsAMeasuredCandidateToo) {
  SaturatingMeter meter(3, 0);
  const SweepResult result = sweep(homes(1, 1), 1, meter, {}, nullptr);
  EXPECT_EQ(result.evidence.candidates.size(), 1U);
  EXPECT_THAT(choose(result.evidence).reason, testing::HasSubstr("share"));
}

Evidence evidence_of(const std::vector<std::pair<int, Nanoseconds>>& pools) {
  Evidence evidence;
  evidence.elements_per_rank = 1'000'000;
  for (const auto& [threads, step_ns] : pools) {
    const auto id = static_cast<int>(evidence.candidates.size());
    CandidateEvidence candidate;
    candidate.id = id;
    candidate.label = "pool " + std::to_string(threads);
    candidate.pool_threads = candidate.pool_cores = threads;
    candidate.reserved_cores = 1;
    evidence.candidates.push_back(candidate);
    for (int round = 0; round < 3; ++round) {
      evidence.samples.push_back({id, round, {step_ns, step_ns, 0, 0, 0, 0}});
    }
  }
  summarize(evidence, 1, 1);
  return evidence;
}

TEST(Choose, TheSmallestPoolWinsATie) {
  EXPECT_EQ(choose(evidence_of({{8, 1000}, {4, 1015}, {2, 1500}})).pool_threads, 4);
  EXPECT_EQ(choose(evidence_of({{8, 1000}, {4, 1030}, {2, 1500}})).pool_threads, 8);
}

TEST(Choose, SaysWhyInWords) {
  EXPECT_THAT(choose(evidence_of({{8, 1000}, {4, 1015}})).reason, testing::HasSubstr("a tie"));
  EXPECT_THAT(choose(evidence_of({{8, 1000}, {4, 2000}})).reason, testing::HasSubstr("the fastest pool"));
  EXPECT_THAT(choose(evidence_of({{1, 1000}})).reason, testing::HasSubstr("the only split there is"));
}

TEST(Choose, NoiseWidensTheTie) {
  Evidence evidence = evidence_of({{8, 1000}, {4, 1060}});
  EXPECT_EQ(knee_of(evidence).pool_threads, 8);
  evidence.noise_floor = 0.08;
  EXPECT_EQ(knee_of(evidence).pool_threads, 4);
}

TEST(Choose, ComputesTheRooflineFromTheFastestCandidate) {
  const Evidence evidence = evidence_of({{2, 56'000'000}, {1, 100'000'000}});
  EXPECT_DOUBLE_EQ(evidence.roofline.bytes_per_s_median, 28e6 / 56e-3);
  EXPECT_EQ(evidence.roofline.threads, 2);
  EXPECT_DOUBLE_EQ(evidence.candidates[0].roofline_ratio, 1.0);
}

TEST(Statistics, QuantilesAreLinearBetweenNeighbours) {
  EXPECT_DOUBLE_EQ(median({3, 1, 2}), 2);
  EXPECT_DOUBLE_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_DOUBLE_EQ(quantile({0, 10}, 0.25), 2.5);
  EXPECT_DOUBLE_EQ(relative_spread({5}), 0);
  EXPECT_DOUBLE_EQ(relative_spread({90, 100, 110}), 0.1);
}

}  // namespace
}  // namespace zf
