#include "commands/neighbours.hpp"

#include <gtest/gtest.h>

namespace zf {
namespace {

TEST(Neighbours, AProcessCountsOnceWithAllItsCpusAndIdleOnesDoNot) {
  const auto neighbours = neighbours_of(
      {{"few", 2, Pu{0}, 0.3}, {"many", 1, Pu{0}, 0.2}, {"many", 1, Pu{1}, 0.2}, {"idle", 3, Pu{1}, 0.04}});
  ASSERT_EQ(neighbours.size(), 2U);
  EXPECT_EQ(neighbours[0].process, "many");
  EXPECT_DOUBLE_EQ(neighbours[0].cpus, 0.4);
  EXPECT_EQ(neighbours[1].pid, 2);
}

}  // namespace
}  // namespace zf
