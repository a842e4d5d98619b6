#include "survey/robust.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace zf {
namespace {

TEST(Robust, ThresholdIsThatOfTheBookAndGrowsWithTheFigures) {
  EXPECT_DOUBLE_EQ(z_threshold(1), 3.5);
  EXPECT_NEAR(z_threshold(1000), 4.8, 0.01);
  EXPECT_NEAR(z_threshold(6000), 5.16, 0.01);
}

TEST(Robust, DistanceHasAFloorThatIsHigherForFewFigures) {
  EXPECT_DOUBLE_EQ(outlier_distance({100, 100, 100}, 3.5), 0.2);
  EXPECT_DOUBLE_EQ(outlier_distance(std::vector<double>(10, 100), 3.5), 0.1);
}

TEST(Robust, DistanceFollowsTheNoiseAndNotTheOutliers) {
  std::vector<double> figures;
  for (int i = 0; i < 50; ++i) figures.push_back(i % 2 == 0 ? 95 : 105);
  EXPECT_NEAR(outlier_distance(figures, 3.5), 3.5 * 0.05 / 0.6745 * (1 + 2 / std::sqrt(50)), 1e-9);
  for (int i = 0; i < 20; ++i) figures.push_back(1);
  EXPECT_LT(outlier_distance(figures, 3.5), 0.7);
}

}  // namespace
}  // namespace zf
