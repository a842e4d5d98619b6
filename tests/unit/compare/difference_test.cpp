#include "compare/difference.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace zf {
namespace {

TEST(Difference, TheOtherWayRoundIsTheSameInterval) {
  const Difference other = inverse({0.25, 0, 1});
  EXPECT_DOUBLE_EQ(other.estimate, -0.2);
  EXPECT_DOUBLE_EQ(other.low, -0.5);
  EXPECT_DOUBLE_EQ(other.high, 0);
}

TEST(Difference, WhatIsUnknownIsUnknownTheOtherWayRound) {
  const Difference unknown{0.012, -1, std::numeric_limits<double>::infinity()};
  EXPECT_FALSE(unknown.is_known());
  EXPECT_FALSE(inverse(unknown).is_known());
  EXPECT_EQ(inverse(unknown).low, -1);
}

}  // namespace
}  // namespace zf
