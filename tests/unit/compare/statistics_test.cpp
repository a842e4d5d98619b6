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

TEST(Statistics, FewerThanFourValuesHaveNoSpread) {
  EXPECT_EQ(print_spread(0.012, 4), "1.2 %");
  EXPECT_EQ(print_spread(0, 3), "–") << "not 0.0 %";
}

}  // namespace
}  // namespace zf
