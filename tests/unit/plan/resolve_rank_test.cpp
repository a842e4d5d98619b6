#include "plan/resolve_rank.hpp"

#include <gtest/gtest.h>

namespace zf {
namespace {

TEST(ResolveRank, TheLaunchersRankComesBeforeThePlansOnlyOne) {
  const Environment launched(std::map<std::string, std::string>{{"LOCAL_RANK", "1"}});
  EXPECT_EQ(resolve_rank(2, launched)->value, 1);
  EXPECT_EQ(resolve_rank(1, launched)->variable, "LOCAL_RANK");
  EXPECT_EQ(resolve_rank(1, Environment())->value, 0);
  EXPECT_EQ(resolve_rank(1, Environment())->variable, "the plan's only rank");
}

TEST(ResolveRank, IsUnknownIfThePlanHasSeveralAndNothingSaysWhich) {
  EXPECT_FALSE(resolve_rank(2, Environment()));
}

}  // namespace
}  // namespace zf
