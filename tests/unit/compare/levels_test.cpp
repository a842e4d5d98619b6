// Tests how certain a difference is, with injected noise of known size.
#include "compare/levels.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace zf {
namespace {

/// Returns visits to candidates at these levels, one each in `blocks` blocks, with that noise between visits.
/// A drift makes each block a tenth slower than the one before.
std::vector<Visit> noisy(std::mt19937& random, const std::vector<double>& levels, int blocks, double noise) {
  std::normal_distribution<double> normal(0, noise);
  std::vector<Visit> visits;
  for (int block = 0; block < blocks; ++block) {
    for (std::size_t candidate = 0; candidate < levels.size(); ++candidate) {
      visits.push_back(
          {candidate, block, levels[candidate] * std::pow(1.1, block) * std::exp(normal(random))});
    }
  }
  return visits;
}

TEST(Levels, TheIntervalHoldsTheTruthNineteenTimesInTwenty) {
  std::mt19937 random(5);
  for (const double truth : {0.0, 0.05}) {
    for (const auto& [candidates, blocks] : {std::pair(2, 3), std::pair(3, 3), std::pair(4, 8)}) {
      int held = 0;
      constexpr int kTries = 2000;
      for (int i = 0; i < kTries; ++i) {
        std::vector<double> levels(static_cast<std::size_t>(candidates), 1);
        levels[1] = 1 + truth;
        const Difference difference =
            Levels(noisy(random, levels, blocks, 0.02), levels.size()).difference(0, 1);
        held += difference.low <= truth && truth <= difference.high;
      }
      EXPECT_NEAR(held, kTries * 0.95, kTries * 0.015)
          << candidates << " candidates in " << blocks << " blocks";
    }
  }
}

TEST(Levels, ADriftThatHitsABlockAlikeDoesNotWidenTheInterval) {
  std::mt19937 random(6);
  const Difference difference = Levels(noisy(random, {1, 1.05}, 8, 0.005), 2).difference(0, 1);
  EXPECT_LT(difference.half_width(), 0.015);
  EXPECT_NEAR(difference.estimate, 0.05, 0.015);
}

TEST(Levels, CandidatesThatNeverMeetAreComparedThroughOthers) {
  // The machine is twice as slow in block 1. Only candidate 1 was visited in both.
  const Levels levels({{0, 0, 1}, {1, 0, 2}, {1, 1, 4}, {2, 1, 6}}, 3);
  EXPECT_NEAR(levels.difference(0, 2).estimate, 2, 1e-9) << "3 against 1 in block 0";
  EXPECT_FALSE(levels.difference(0, 2).is_known()) << "nothing says how noisy visits are";
  EXPECT_EQ(levels.freedom(), 0);
}

TEST(Levels, VisitsThatDisagreeAreNoise) {
  std::vector<Visit> visits;
  for (int block = 0; block < 6; ++block) {
    visits.push_back({0, block, 1});
    visits.push_back({1, block, block % 2 == 0 ? 1.1 : 0.9});
  }
  EXPECT_GT(Levels(visits, 2).noise(), 0.05);
  EXPECT_EQ(Levels(visits, 2).freedom(), 5);
}

TEST(Levels, AVisitThatTheOthersContradictIsLeftOut) {
  std::mt19937 random(7);
  for (const std::size_t outlier : {0U, 5U, 11U}) {
    std::vector<Visit> visits = noisy(random, {1, 1.05}, 6, 0.005);
    visits[outlier].value *= 2.5;
    const Levels levels(visits, 2);
    EXPECT_EQ(levels.left_out(), 1);
    EXPECT_NEAR(levels.difference(0, 1).estimate, 0.05, 0.015);
    EXPECT_LT(levels.difference(0, 1).half_width(), 0.03);
    EXPECT_EQ(levels.visits(0) + levels.visits(1), 11);
  }
}

TEST(Levels, SeveralOutliersAreLeftOutOneByOne) {
  std::mt19937 random(8);
  std::vector<Visit> visits = noisy(random, {1, 1, 1, 1}, 8, 0.005);
  for (const std::size_t outlier : {3U, 10U, 21U}) visits[outlier].value *= 3;
  EXPECT_EQ(Levels(visits, 4).left_out(), 3);
  const auto kept = Levels(visits, 4).kept();
  EXPECT_EQ(kept.size(), 29U);
  for (const std::size_t outlier : {3U, 10U, 21U})
    EXPECT_EQ(std::count(kept.begin(), kept.end(), outlier), 0);
  EXPECT_LT(Levels(visits, 4).noise(), 0.01);
}

TEST(Levels, NoiseAloneIsNoOutlier) {
  std::mt19937 random(9);
  int left_out = 0;
  for (int i = 0; i < 2000; ++i) left_out += Levels(noisy(random, {1, 1, 1, 1}, 8, 0.05), 4).left_out();
  EXPECT_LE(left_out, 5) << "of 64,000 visits";
}

TEST(Levels, ACandidatesOnlyVisitIsNotLeftOut) {
  std::mt19937 random(10);
  std::vector<Visit> visits = noisy(random, {1, 1}, 6, 0.005);
  visits.push_back({2, 5, 30});
  EXPECT_EQ(Levels(visits, 3).left_out(), 0) << "nothing says how long it takes otherwise";
}

TEST(Levels, WithoutACommonBlockADifferenceIsUnknown) {
  const Levels levels({{0, 0, 1}, {0, 1, 1}, {1, 2, 2}, {1, 3, 2}}, 2);
  EXPECT_NEAR(levels.difference(0, 1).estimate, 1, 1e-9);
  EXPECT_FALSE(levels.difference(0, 1).is_known());
  EXPECT_FALSE(Levels({{0, 0, 1}}, 2).has(1));
}

TEST(Levels, StudentsTBecomesNormal) {
  EXPECT_DOUBLE_EQ(student_t(1), 12.706);
  EXPECT_NEAR(student_t(30), 2.042, 1e-3);
  EXPECT_NEAR(student_t(31), 2.040, 1e-3);
  EXPECT_NEAR(student_t(100000), 1.960, 1e-3);
}

}  // namespace
}  // namespace zf
