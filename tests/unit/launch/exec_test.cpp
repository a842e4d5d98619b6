#include "launch/exec.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/cpu_list.hpp"
#include "base/error.hpp"

namespace zf {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Key;
using testing::Not;
using testing::Pair;

/// Two ranks: training 0-3 and 8-11, optimizer 4-7 and 12-15, on nodes 0 and 1.
Plan two_ranks() {
  Plan plan;
  for (int rank = 0; rank < 2; ++rank) {
    const std::string base[2][2] = {{"0-3", "4-7"}, {"8-11", "12-15"}};
    RankBinding binding;
    binding.rank = rank;
    binding.training = {parse_cpu_list(base[rank][0], "test"), 4};
    binding.optimizer = {parse_cpu_list(base[rank][1], "test"), {Node{rank}}, MemoryPolicy::preferred};
    plan.ranks.push_back(binding);
  }
  return plan;
}

Allowed allowed(const char* cpus, const char* mems = "0-1") {
  Allowed result;
  result.cpus = parse_cpu_list(cpus, "test");
  result.mems = parse_node_list(mems, "test");
  return result;
}

Environment environment(std::map<std::string, std::string> variables) {
  return Environment(std::move(variables));
}

const LaunchRequest kRequest{"/plans/plan.json", std::nullopt, false};

TEST(Exec, TakesItsRankFromTheLauncher) {
  for (const char* variable :
       {"LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"}) {
    const Launch launch = launch_of(two_ranks(), kRequest, allowed("0-15"), environment({{variable, "1"}}));
    EXPECT_EQ(launch.rank, 1);
    EXPECT_EQ(launch.rank_source, variable);
    EXPECT_EQ(print(launch.cpus), "8-11");
    EXPECT_EQ(print(launch.mems), "1");
  }
}

TEST(Exec, TheRankGivenByHandWins) {
  LaunchRequest request = kRequest;
  request.rank = 0;
  const Launch launch = launch_of(two_ranks(), request, allowed("0-15"), environment({{"LOCAL_RANK", "1"}}));
  EXPECT_EQ(launch.rank, 0);
  EXPECT_EQ(launch.rank_source, "--rank");
}

TEST(Exec, AnUnknownRankIsAskedForAndAForeignOneRefused) {
  EXPECT_THROW(launch_of(two_ranks(), kRequest, allowed("0-15"), environment({})), Error);
  EXPECT_THROW(launch_of(two_ranks(), kRequest, allowed("0-15"), environment({{"LOCAL_RANK", "2"}})), Error);
  Plan one = two_ranks();
  one.ranks.pop_back();
  EXPECT_EQ(launch_of(one, kRequest, allowed("0-15"), environment({})).rank, 0) << "one rank needs no asking";
}

TEST(Exec, TellsTheRuntimeWhatIsIts) {
  const Launch launch = launch_of(two_ranks(), kRequest, allowed("0-15"), environment({{"LOCAL_RANK", "1"}}));
  EXPECT_THAT(launch.set, Contains(Pair("ZF_PLAN", "/plans/plan.json")));
  EXPECT_THAT(launch.set, Contains(Pair("ZF_RANK", "1")));
  EXPECT_THAT(launch.set, Contains(Pair("ZF_OPTIMIZER_CPUS", "12-15")));
  EXPECT_THAT(launch.set, Contains(Pair("OMP_NUM_THREADS", "4")));
  EXPECT_THAT(launch.set, Contains(Pair("MKL_NUM_THREADS", "4")));
  EXPECT_THAT(launch.set, Not(Contains(Key("OMP_PROC_BIND"))));
}

TEST(Exec, TheUsersThreadCountWinsAndIsMentioned) {
  const Launch launch = launch_of(two_ranks(), kRequest, allowed("0-15"),
                                  environment({{"LOCAL_RANK", "0"}, {"OMP_NUM_THREADS", "9"}}));
  EXPECT_THAT(launch.set, Not(Contains(Key("OMP_NUM_THREADS"))));
  EXPECT_THAT(launch.notes, Contains(HasSubstr("OMP_NUM_THREADS=9")));
}

TEST(Exec, APlanThatDoesNotFitIsNamedCpuByCpu) {
  try {
    launch_of(two_ranks(), kRequest, allowed("0-5,8-15"), environment({{"LOCAL_RANK", "0"}}));
    FAIL() << "a plan for CPUs 6-7 was obeyed where they are not allowed";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::stale_plan);
    EXPECT_THAT(error.what(), HasSubstr("6-7"));
  }
}

TEST(Exec, ARankIsHeldAgainstItsOwnCpusOnly) {
  // srun --cpu-bind gives every task its own mask: rank 1 never sees rank 0's CPUs.
  const Launch launch =
      launch_of(two_ranks(), kRequest, allowed("8-15", "1"), environment({{"SLURM_LOCALID", "1"}}));
  EXPECT_EQ(print(launch.cpus), "8-11");
}

bool applies_to(int rank, const char* cpus, int ranks = 2) {
  return plan_applies_to_rank(two_ranks(), rank, ranks, allowed(cpus));
}

TEST(Exec, EveryRankComesToTheSameWhereAllSeeTheSame) {
  EXPECT_TRUE(applies_to(0, "0-15") && applies_to(1, "0-15"));
  EXPECT_FALSE(applies_to(0, "0-11") || applies_to(1, "0-11"))
      << "if rank 0 kept its CPUs, rank 1's new ones would overlap them";
  EXPECT_FALSE(applies_to(0, "1-15"));
}

TEST(Exec, ARankThatSeesItsOwnAloneKeepsIt) {
  EXPECT_TRUE(applies_to(0, "0-7") && applies_to(1, "8-15"));
  EXPECT_FALSE(applies_to(1, "0-7"));
  EXPECT_FALSE(applies_to(0, "0-8")) << "one CPU of rank 1";
}

TEST(Exec, APlanForOtherRanksDoesNotHold) {
  EXPECT_FALSE(applies_to(0, "0-15", 1));
  EXPECT_FALSE(applies_to(0, "0-15", 4));
}

TEST(Exec, AQuotaThatIsNewAndBelowTheThreadsCounts) {
  Plan plan = two_ranks();
  Allowed here = allowed("0-15");
  here.cpu_quota = 15.5;
  EXPECT_FALSE(plan_applies_to_rank(plan, 0, 2, here));
  plan.allocation.cpu_quota = 15.5;
  EXPECT_TRUE(plan_applies_to_rank(plan, 0, 2, here)) << "it was made under it";
  here.cpu_quota = 16;
  EXPECT_TRUE(plan_applies_to_rank(plan, 0, 2, here)) << "16 threads";
}

TEST(Exec, CountsTheRanksThatTheLauncherStarted) {
  const auto count = [](std::map<std::string, std::string> variables,
                        const LaunchRequest& request = kRequest) {
    return resolve_rank_count(two_ranks(), request, Environment(std::move(variables)));
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

TEST(Exec, SwitchesOff) {
  EXPECT_TRUE(switched_off(environment({{"ZF_TUNE", "off"}})));
  EXPECT_FALSE(switched_off(environment({{"ZF_TUNE", "on"}})));
  EXPECT_FALSE(switched_off(environment({})));
}

TEST(Exec, DescribesWhatItWouldDoInWordsAShellCouldRun) {
  const Launch launch = launch_of(two_ranks(), kRequest, allowed("0-15"), environment({{"LOCAL_RANK", "1"}}));
  const std::string text = describe(launch, {"python", "train me.py"});
  EXPECT_THAT(text, HasSubstr("export ZF_RANK=1\n"));
  EXPECT_THAT(text, HasSubstr("exec taskset -c 8-11 python 'train me.py'\n"));
}

}  // namespace
}  // namespace zf
