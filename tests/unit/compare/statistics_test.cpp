#include "compare/statistics.hpp"

#include <gtest/gtest.h>

namespace zf {
namespace {

TEST(Statistics, QuantilesAreLinearBetweenNeighbours) {
  EXPECT_DOUBLE_EQ(median({3, 1, 2}), 2);
  EXPECT_DOUBLE_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_DOUBLE_EQ(quantile({0, 10}, 0.25), 2.5);
  EXPECT_DOUBLE_EQ(relative_spread({5}), 0);
  EXPECT_DOUBLE_EQ(relative_spread({90, 100, 110}), 0.1);
}

TEST(Statistics, AMediansErrorShrinksWithTheNumberOfValues) {
  // Quartiles 20 % apart: a standard deviation of 14.8 %, and 1.25 / sqrt(n) of it.
  EXPECT_NEAR(median_error({80, 90, 100, 110, 120}), 0.0831, 1e-4);
  EXPECT_DOUBLE_EQ(median_error({100}), 0);
  EXPECT_DOUBLE_EQ(median_error({0, 0, 0}), 0) << "no training side";
}

TEST(Statistics, FewerThanFourValuesHaveNoSpread) {
  EXPECT_EQ(print_spread(0.012, 4), "1.2 %");
  EXPECT_EQ(print_spread(0, 3), "-") << "not 0.0 %";
}

}  // namespace
}  // namespace zf
