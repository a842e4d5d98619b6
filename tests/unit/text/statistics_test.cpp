// Tests how certain a difference is, with injected noise of known size.
#include "text/statistics.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace zf {
namespace {

/// Returns `blocks` blocks of `size` times around `level`. They have 2 % noise, one in a hundred is three
/// times as long, and a drift makes each block a tenth slower than the one before.
std::vector<Observation> noisy(std::mt19937& random, double level, int blocks, int size) {
  std::normal_distribution<double> normal(0, 0.02);
  std::bernoulli_distribution outlier(0.01);
  std::vector<Observation> observations;
  for (int block = 0; block < blocks; ++block) {
    for (int i = 0; i < size; ++i) {
      const double value = level * std::pow(1.1, block) * (1 + normal(random)) * (outlier(random) ? 3 : 1);
      observations.push_back({block, value});
    }
  }
  return observations;
}

TEST(Statistics, QuantilesAreLinearBetweenNeighbours) {
  EXPECT_DOUBLE_EQ(median({3, 1, 2}), 2);
  EXPECT_DOUBLE_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_DOUBLE_EQ(quantile({0, 10}, 0.25), 2.5);
  EXPECT_DOUBLE_EQ(relative_spread({5}), 0);
  EXPECT_DOUBLE_EQ(relative_spread({90, 100, 110}), 0.1);
}

TEST(Statistics, TheIntervalHoldsTheTruthNineteenTimesInTwenty) {
  std::mt19937 random(5);
  for (const double truth : {0.0, 0.05}) {
    for (const auto& [blocks, size] : {std::pair(1, 8), std::pair(3, 8), std::pair(4, 5)}) {
      int held = 0;
      constexpr int kTries = 1000;
      for (int i = 0; i < kTries; ++i) {
        const Difference difference =
            compare(noisy(random, 1, blocks, size), noisy(random, 1 + truth, blocks, size));
        held += difference.low <= truth && truth <= difference.high;
      }
      EXPECT_GE(held, kTries * 93 / 100) << blocks << " blocks of " << size;
      EXPECT_LE(held, kTries * 99 / 100) << "no wider than needed";
    }
  }
}

TEST(Statistics, ADriftThatHitsBothAlikeDoesNotWidenTheInterval) {
  std::mt19937 random(6);
  const Difference difference = compare(noisy(random, 1, 6, 8), noisy(random, 1.05, 6, 8));
  EXPECT_LT(difference.half_width(), 0.015);
  EXPECT_NEAR(difference.estimate, 0.05, 0.015);
}

TEST(Statistics, MoreSamplesNarrowIt) {
  std::mt19937 random(7);
  const auto width = [&](int blocks) {
    return compare(noisy(random, 1, blocks, 8), noisy(random, 1, blocks, 8)).half_width();
  };
  EXPECT_LT(width(16), 0.6 * width(2));
}

TEST(Statistics, ThreeSamplesAreTooFewAndFourSuffice) {
  std::mt19937 random(8);
  EXPECT_TRUE(std::isinf(compare(noisy(random, 1, 1, 3), noisy(random, 1, 1, 3)).high));
  EXPECT_FALSE(std::isinf(compare(noisy(random, 1, 1, 4), noisy(random, 1, 1, 4)).high));
}

TEST(Statistics, BlocksOfOnlyOneSideSayNothing) {
  const std::vector<Observation> a{{0, 1}, {1, 100}, {1, 100}};
  const std::vector<Observation> b{{0, 2}, {2, 1}, {2, 1}};
  EXPECT_NEAR(compare(a, b).estimate, 1, 1e-9);
  EXPECT_NEAR(compare({{0, 1}}, {{1, 2}}).estimate, 1, 1e-9) << "but nothing shared is better than nothing";
}

TEST(Statistics, VisitsThatDisagreeAreNoiseEvenIfEachIsQuiet) {
  std::vector<Observation> reference;
  std::vector<Observation> other;
  for (int block = 0; block < 6; ++block) {
    for (int i = 0; i < 5; ++i) {
      reference.push_back({block, 1});
      other.push_back({block, block % 2 == 0 ? 1.1 : 0.9});
    }
  }
  EXPECT_GT(noise_between_blocks({reference, other}, 6), 0.05);
  EXPECT_EQ(noise_between_blocks({reference, reference}, 6), 0);
  EXPECT_EQ(noise_between_blocks({{{0, 1}}, {{0, 2}}}, 1), 0) << "one visit each says nothing";
}

}  // namespace
}  // namespace zf
