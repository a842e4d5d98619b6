#include "launch/launch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/format.hpp"
#include "launch/launch_parts.hpp"
#include "plan/plan_check.hpp"
#include "plan/plan_json.hpp"
#include "two_ranks.hpp"

namespace zf {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Key;
using testing::Not;
using testing::Pair;

Environment environment(std::map<std::string, std::string> variables) {
  return Environment(std::move(variables));
}

/// Finds the rank and launches it by the plan as it is.
Launch launched(const Plan& plan, const LaunchRequest& request, const Allowed& here,
                const Environment& variables) {
  const EnvNumber rank = launch_rank(plan, request, variables);
  return planned_launch(
      {binding_of(plan, rank.value), plan.workload.framework, StartedOn::nothing, plan_id(plan)}, rank,
      request.plan_path, here, variables);
}

TEST(Launch, TakesItsRankFromTheLauncher) {
  for (const char* variable :
       {"LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"}) {
    const Launch launch = launched(two_ranks(), kRequest, allowed("0-15"), environment({{variable, "1"}}));
    EXPECT_EQ(launch.rank, 1);
    EXPECT_EQ(launch.rank_source, variable);
    EXPECT_EQ(print(launch.cpus), "8-11");
    EXPECT_EQ(print(launch.mems), "1");
  }
}

TEST(Launch, TheRankGivenByHandWins) {
  LaunchRequest request = kRequest;
  request.rank = 0;
  const Launch launch = launched(two_ranks(), request, allowed("0-15"), environment({{"LOCAL_RANK", "1"}}));
  EXPECT_EQ(launch.rank, 0);
  EXPECT_EQ(launch.rank_source, "--rank");
}

TEST(Launch, AnUnknownRankIsAskedForAndAForeignOneRefused) {
  EXPECT_THROW(launched(two_ranks(), kRequest, allowed("0-15"), environment({})), Error);
  EXPECT_THROW(launched(two_ranks(), kRequest, allowed("0-15"), environment({{"LOCAL_RANK", "2"}})), Error);
  Plan one = two_ranks();
  one.ranks.pop_back();
  EXPECT_EQ(launched(one, kRequest, allowed("0-15"), environment({})).rank, 0) << "one rank needs no asking";
}

TEST(Launch, AProcessGetsItsWholeHomeUnlessOurRuntimeStepsBesideIt) {
  for (const Framework framework :
       {Framework::torch, Framework::deepspeed_offload, Framework::deepspeed_zenflow, Framework::superoffload,
        Framework::unknown}) {
    Plan plan = two_ranks();
    plan.workload.framework = framework;
    const Launch launch = launched(plan, kRequest, allowed("0-15"), environment({{"LOCAL_RANK", "1"}}));
    EXPECT_EQ(print(launch.cpus), "8-15") << name_of(framework);
    EXPECT_THAT(launch.set, Contains(Pair("OMP_NUM_THREADS", "8"))) << name_of(framework);
    EXPECT_EQ(launch.binding->started_on, StartedOn::home);
    EXPECT_THAT(launch.notes, testing::IsEmpty());
  }
  const Launch native = launched(two_ranks(), kRequest, allowed("0-15"), environment({{"LOCAL_RANK", "1"}}));
  EXPECT_EQ(print(native.cpus), "8-11");
  EXPECT_THAT(native.notes, testing::ElementsAre(HasSubstr("CPUs 12-15 are kept for the optimizer process")));
}

TEST(Launch, ASharedHomeIsNotSplitForOurRuntimeEither) {
  Plan plan = two_ranks();
  RankBinding& rank = plan.ranks[0];
  rank.shared = true;
  rank.training = {rank.home.cpus, 8};
  const Launch launch = launched(plan, kRequest, allowed("0-15"), environment({{"LOCAL_RANK", "0"}}));
  EXPECT_EQ(print(launch.cpus), "0-7");
  EXPECT_EQ(launch.binding->started_on, StartedOn::home);
  EXPECT_THAT(launch.notes, testing::IsEmpty()) << "no CPU is kept for the optimizer alone";
}

TEST(Launch, WhereNeighboursShareTheCpusAProcessHasAllOfItsHomeAndItsShareOfThreads) {
  Plan plan = two_ranks();
  plan.allocation.shared_cpus = true;
  for (RankBinding& rank : plan.ranks) {
    rank.home = {parse_cpu_list("0-15", "test"), 4};
    rank.training = {rank.home.cpus, 3};
    rank.optimizer.cpus = rank.home.cpus;
    rank.optimizer.threads = 1;
  }
  for (const char* rank : {"0", "1"}) {
    const Launch launch = launched(plan, kRequest, allowed("0-15"), environment({{"LOCAL_RANK", rank}}));
    EXPECT_EQ(print(launch.cpus), "0-15");
    EXPECT_THAT(launch.set, Contains(Pair("OMP_NUM_THREADS", "3")));
    EXPECT_EQ(parse_binding(launch.set.at("ZF_BINDING")).rank.optimizer.threads, 1);
    const std::string notes = join_text(launch.notes, "\n");
    EXPECT_EQ(notes, *rank == '0'
                         ? "neighbours share CPUs 0-15: no thread is pinned to a few of them, and the "
                           "pool has 1 thread"
                         : "")
        << "one note is enough";
  }
}

TEST(Launch, TellsTheRuntimeWhatIsIts) {
  const Launch launch = launched(two_ranks(), kRequest, allowed("0-15"), environment({{"LOCAL_RANK", "1"}}));
  EXPECT_THAT(launch.set, Contains(Pair("ZF_PLAN", "/plans/plan.json")));
  EXPECT_THAT(launch.set, Contains(Pair("ZF_RANK", "1")));
  EXPECT_THAT(launch.set, Contains(Pair("ZF_OPTIMIZER_CPUS", "12-15")));
  const ProcessBinding told = parse_binding(launch.set.at("ZF_BINDING"));
  EXPECT_EQ(told, *launch.binding);
  EXPECT_EQ(print(told.rank.optimizer.cpus), "12-15");
  EXPECT_THAT(launch.set, Contains(Pair("OMP_NUM_THREADS", "4")));
  EXPECT_THAT(launch.set, Contains(Pair("MKL_NUM_THREADS", "4")));
  EXPECT_THAT(launch.set, Contains(Pair("OPENBLAS_NUM_THREADS", "4")));
  EXPECT_THAT(launch.set, Not(Contains(Key("OMP_PROC_BIND"))));
}

TEST(Launch, TheUsersThreadCountWinsAndIsMentioned) {
  const Launch launch = launched(two_ranks(), kRequest, allowed("0-15"),
                                 environment({{"LOCAL_RANK", "1"}, {"OMP_NUM_THREADS", "9"}}));
  EXPECT_THAT(launch.set, Not(Contains(Key("OMP_NUM_THREADS"))));
  EXPECT_THAT(launch.set, Contains(Pair("MKL_NUM_THREADS", "9")));
  EXPECT_THAT(launch.set, Contains(Pair("OPENBLAS_NUM_THREADS", "9")));
  EXPECT_THAT(launch.notes, Contains(HasSubstr("OMP_NUM_THREADS=9")));
}

TEST(Launch, OneRankOfTheNodeSaysThatTorchrunsNumberIsReplaced) {
  const auto notes = [](const char* rank) {
    return launched(
               two_ranks(), kRequest, allowed("0-15"),
               environment({{"LOCAL_RANK", rank}, {"TORCHELASTIC_RUN_ID", "none"}, {"OMP_NUM_THREADS", "1"}}))
        .notes;
  };
  EXPECT_THAT(notes("0"), Contains(HasSubstr("--keep-threads")));
  EXPECT_THAT(notes("1"), Not(Contains(HasSubstr("--keep-threads"))));
}

TEST(Launch, APlanThatDoesNotFitIsNamedCpuByCpu) {
  try {
    launched(two_ranks(), kRequest, allowed("0-5,8-15"), environment({{"LOCAL_RANK", "0"}}));
    FAIL() << "a plan for CPUs 6-7 was obeyed where they are not allowed";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::stale_plan);
    EXPECT_THAT(error.what(), HasSubstr("6-7"));
  }
}

TEST(Launch, ARankIsHeldAgainstItsOwnCpusOnly) {
  // srun --cpu-bind gives every task its own mask: rank 1 never sees rank 0's CPUs.
  const Launch launch =
      launched(two_ranks(), kRequest, allowed("8-15", "1"), environment({{"SLURM_LOCALID", "1"}}));
  EXPECT_EQ(print(launch.cpus), "8-11");
}

TEST(Launch, NoMemoryIsPreferredWhereThePlanPrefersNone) {
  Plan plan = two_ranks();
  const Environment rank = environment({{"LOCAL_RANK", "1"}});
  EXPECT_EQ(print(launched(plan, kRequest, allowed("0-15"), rank).mems), "1");
  plan.ranks[1].optimizer.memory_policy = MemoryPolicy::none;
  EXPECT_TRUE(launched(plan, kRequest, allowed("0-15"), rank).mems.empty());
}

TEST(Launch, ANoteIsOneLineForAShellWhateverThePlanHasInIt) {
  Launch launch;
  launch.notes.emplace_back("the plan's GPU \x1b[2J\u202e\necho INJECTED is not on this node");
  EXPECT_EQ(describe(launch, {"true"}),
            "# the plan's GPU  [2J  echo INJECTED is not on this node\nexec true\n");
}

TEST(Launch, DescribesWhatItWouldDoInWordsAShellCouldRun) {
  const Launch launch = launched(two_ranks(), kRequest, allowed("0-15"), environment({{"LOCAL_RANK", "1"}}));
  const std::string text = describe(launch, {"python", "train me.py"});
  EXPECT_THAT(text, HasSubstr("export ZF_RANK=1\n"));
  EXPECT_THAT(text, HasSubstr("exec taskset -c 8-11 python 'train me.py'\n"));
}

}  // namespace
}  // namespace zf
