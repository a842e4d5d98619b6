#include "launch/launch_parts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "two_ranks.hpp"

namespace zf {
namespace {

using testing::HasSubstr;

TEST(LaunchRank, CountsTheRanksThatTheLauncherStarted) {
  const auto count = [](std::map<std::string, std::string> variables,
                        const LaunchRequest& request = kRequest) {
    return launch_rank_count(two_ranks(), request, Environment(std::move(variables)));
  };
  EXPECT_EQ(count({}), 2) << "as many as the plan has";
  EXPECT_EQ(count({{"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "8"}}), 8);
  EXPECT_EQ(count({{"LOCAL_RANK", "0"}}), 2);
  LaunchRequest by_hand = kRequest;
  by_hand.rank = 1;
  EXPECT_EQ(count({{"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "8"}}, by_hand), 2);
  by_hand.ranks = 4;
  EXPECT_EQ(count({}, by_hand), 4);
}

TEST(LaunchRank, ABatchScriptOfSlurmIsNoRank) {
  const Environment batch({{"SLURM_JOB_ID", "7"}, {"SLURM_LOCALID", "0"}, {"SLURM_NODEID", "0"}});
  try {
    launch_rank(two_ranks(), kRequest, batch);
    FAIL() << "it was taken for rank 0 of two";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::usage);
    EXPECT_THAT(error.what(), HasSubstr("this is a Slurm batch script, which is none of the plan's 2 ranks; "
                                        "start the job with srun, or give --rank N"));
  }
  Plan one = two_ranks();
  one.ranks.pop_back();
  EXPECT_EQ(launch_rank(one, kRequest, batch).variable, "the plan's only rank");
  LaunchRequest by_hand = kRequest;
  by_hand.rank = 1;
  EXPECT_EQ(launch_rank(two_ranks(), by_hand, batch).value, 1);
}

}  // namespace
}  // namespace zf
