// Tests that a memory policy which others have set is kept, and that the optimizer's memory stays within it.
#include "launch/memory_launch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/cpu_list.hpp"
#include "launch/launch.hpp"
#include "two_ranks.hpp"

namespace zf {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

ThreadPolicy policy(GivenPolicy kind, const char* nodes) { return {kind, parse_node_list(nodes, "test")}; }

/// Returns the launch of a rank of two_ranks(). Rank 0 prefers node 0, and rank 1 node 1.
Launch settled(int rank, std::optional<MemoryChoice> choice, const std::optional<ThreadPolicy>& given) {
  Launch launch = planned_launch({two_ranks().ranks[static_cast<std::size_t>(rank)], Framework::torch},
                                 {rank, "--rank"}, "/plans/plan.json", allowed("0-15"), Environment());
  launch.notes.clear();
  settle_memory(launch, choice, given);
  return launch;
}

RankBinding told(const Launch& launch) { return parse_binding(launch.set.at("ZF_BINDING")).rank; }

TEST(MemoryLaunch, WithoutAPolicyOfOthersThePlansIsSet) {
  const Launch launch = settled(1, std::nullopt, {});
  EXPECT_EQ(print(launch.mems), "1");
  EXPECT_FALSE(launch.binding->kept);
  EXPECT_THAT(launch.notes, IsEmpty());
  const Launch kept = settled(1, MemoryChoice::keep, {});
  EXPECT_EQ(print(kept.mems), "") << "--memory-policy keep also keeps the system's default";
  EXPECT_EQ(print(told(kept).optimizer.mems), "1");
}

TEST(MemoryLaunch, TheRemedyIsWhatTheLauncherHas) {
  for (const auto& [by, remedy] :
       {std::pair{LaunchedBy::exec, "; --memory-policy plan replaces it"},
        {LaunchedBy::plugin, "; srun --zf-tune=memory-policy=plan replaces it"},
        {LaunchedBy::bind, "; start the job without that policy to have the plan's"}}) {
    Launch launch = settled(0, MemoryChoice::plan, {});
    settle_memory(launch, std::nullopt, policy(GivenPolicy::bind, "0"), by);
    EXPECT_THAT(launch.notes, ElementsAre(testing::EndsWith(remedy)));
  }
}

TEST(MemoryLaunch, APolicyOfOthersIsKeptAndTheOptimizerStaysWithinIt) {
  const Launch launch = settled(0, std::nullopt, policy(GivenPolicy::interleave, "0-1"));
  EXPECT_THAT(launch.mems, IsEmpty());
  EXPECT_EQ(print(told(launch).optimizer.mems), "0");
  EXPECT_EQ(parse_binding(launch.set.at("ZF_BINDING")).kept, policy(GivenPolicy::interleave, "0-1"));
  EXPECT_THAT(launch.notes,
              ElementsAre("the memory policy that was set before, interleave on nodes 0-1, is kept, and "
                          "memory of rank 0's optimizer lies on node 0; --memory-policy plan replaces "
                          "it"));
  EXPECT_THAT(describe(launch, {"true"}), Not(HasSubstr("# memory: preferred")));
  EXPECT_THAT(settled(1, std::nullopt, policy(GivenPolicy::interleave, "0-1")).notes, IsEmpty());
  EXPECT_EQ(print(told(settled(0, std::nullopt, ThreadPolicy{})).optimizer.mems), "0");
}

TEST(MemoryLaunch, ARankThatThePolicyKeepsFromItsNodesSaysSo) {
  for (const GivenPolicy kind : {GivenPolicy::bind, GivenPolicy::preferred, GivenPolicy::interleave}) {
    const Launch launch = settled(1, std::nullopt, policy(kind, "0"));
    EXPECT_EQ(print(told(launch).optimizer.mems), "0");
    EXPECT_THAT(launch.notes,
                ElementsAre(AllOf(HasSubstr("rank 1's optimizer lies on node 0 and not on the plan's node 1"),
                                  HasSubstr("--memory-policy plan"))));
  }
}

TEST(MemoryLaunch, ThePlansPolicyReplacesItIfAskedTo) {
  const Launch launch = settled(0, MemoryChoice::plan, policy(GivenPolicy::bind, "1"));
  EXPECT_EQ(print(launch.mems), "0");
  EXPECT_EQ(print(told(launch).optimizer.mems), "0");
  EXPECT_THAT(launch.notes, IsEmpty());
}

TEST(MemoryLaunch, AnInnerExecSaysNothingAgain) {
  Launch launch = settled(0, std::nullopt, policy(GivenPolicy::bind, "1"));
  launch.notes.clear();
  launch.set.clear();
  settle_memory(launch, std::nullopt, policy(GivenPolicy::bind, "1"));
  EXPECT_THAT(launch.notes, IsEmpty());
  EXPECT_THAT(launch.set, IsEmpty());
}

TEST(MemoryLaunch, ALaunchThatBindsNothingIsLeftAlone) {
  Launch unbound;
  settle_memory(unbound, std::nullopt, policy(GivenPolicy::bind, "1"));
  EXPECT_THAT(unbound.notes, IsEmpty());
}

}  // namespace
}  // namespace zf
