#include "launch/exec.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "plan/plan_check.hpp"
#include "plan/plan_json.hpp"

namespace zf {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Key;
using testing::Not;
using testing::Pair;

/// Returns a plan of two ranks: training 0-3 and 8-11, optimizer 4-7 and 12-15, on nodes 0 and 1. Our
/// runtime runs the optimizer.
Plan two_ranks() {
  Plan plan;
  plan.workload.framework = Framework::native;
  for (int rank = 0; rank < 2; ++rank) {
    const std::string base[2][2] = {{"0-3", "4-7"}, {"8-11", "12-15"}};
    RankBinding binding;
    binding.rank = rank;
    binding.training = {parse_cpu_list(base[rank][0], "test"), 4};
    binding.optimizer = {parse_cpu_list(base[rank][1], "test"), {Node{rank}}, MemoryPolicy::preferred};
    binding.home = {binding.both_sides(), 8};
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

/// Finds the rank and launches it by the plan as it is.
Launch launch_by(const Plan& plan, const LaunchRequest& request, const Allowed& here,
                 const Environment& variables) {
  const EnvNumber rank = resolve_rank(plan, request, variables);
  return launch_of({binding_of(plan, rank.value), plan.workload.framework, StartedOn::nothing, plan_id(plan)},
                   rank, request, here, variables);
}

TEST(Exec, TakesItsRankFromTheLauncher) {
  for (const char* variable :
       {"LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"}) {
    const Launch launch = launch_by(two_ranks(), kRequest, allowed("0-15"), environment({{variable, "1"}}));
    EXPECT_EQ(launch.rank, 1);
    EXPECT_EQ(launch.rank_source, variable);
    EXPECT_EQ(print(launch.cpus), "8-11");
    EXPECT_EQ(print(launch.mems), "1");
  }
}

TEST(Exec, TheRankGivenByHandWins) {
  LaunchRequest request = kRequest;
  request.rank = 0;
  const Launch launch = launch_by(two_ranks(), request, allowed("0-15"), environment({{"LOCAL_RANK", "1"}}));
  EXPECT_EQ(launch.rank, 0);
  EXPECT_EQ(launch.rank_source, "--rank");
}

TEST(Exec, AnUnknownRankIsAskedForAndAForeignOneRefused) {
  EXPECT_THROW(launch_by(two_ranks(), kRequest, allowed("0-15"), environment({})), Error);
  EXPECT_THROW(launch_by(two_ranks(), kRequest, allowed("0-15"), environment({{"LOCAL_RANK", "2"}})), Error);
  Plan one = two_ranks();
  one.ranks.pop_back();
  EXPECT_EQ(launch_by(one, kRequest, allowed("0-15"), environment({})).rank, 0) << "one rank needs no asking";
}

TEST(Exec, AProcessGetsItsWholeHomeUnlessOurRuntimeStepsBesideIt) {
  for (const Framework framework :
       {Framework::torch, Framework::deepspeed_offload, Framework::deepspeed_zenflow, Framework::superoffload,
        Framework::unknown}) {
    Plan plan = two_ranks();
    plan.workload.framework = framework;
    const Launch launch = launch_by(plan, kRequest, allowed("0-15"), environment({{"LOCAL_RANK", "1"}}));
    EXPECT_EQ(print(launch.cpus), "8-15") << name_of(framework);
    EXPECT_THAT(launch.set, Contains(Pair("OMP_NUM_THREADS", "8"))) << name_of(framework);
    EXPECT_EQ(launch.binding->started_on, StartedOn::home);
    EXPECT_THAT(launch.notes, testing::IsEmpty());
  }
  const Launch native = launch_by(two_ranks(), kRequest, allowed("0-15"), environment({{"LOCAL_RANK", "1"}}));
  EXPECT_EQ(print(native.cpus), "8-11");
  EXPECT_THAT(native.notes, testing::ElementsAre(HasSubstr("CPUs 12-15 are kept for the optimizer process")));
}

TEST(Exec, ASharedHomeIsNotSplitForOurRuntimeEither) {
  Plan plan = two_ranks();
  RankBinding& rank = plan.ranks[0];
  rank.shared = true;
  rank.training = {rank.home.cpus, 8};
  const Launch launch = launch_by(plan, kRequest, allowed("0-15"), environment({{"LOCAL_RANK", "0"}}));
  EXPECT_EQ(print(launch.cpus), "0-7");
  EXPECT_EQ(launch.binding->started_on, StartedOn::home);
  EXPECT_THAT(launch.notes, testing::IsEmpty()) << "no CPU is kept for the optimizer alone";
}

TEST(Exec, TellsTheRuntimeWhatIsIts) {
  const Launch launch = launch_by(two_ranks(), kRequest, allowed("0-15"), environment({{"LOCAL_RANK", "1"}}));
  EXPECT_THAT(launch.set, Contains(Pair("ZF_PLAN", "/plans/plan.json")));
  EXPECT_THAT(launch.set, Contains(Pair("ZF_RANK", "1")));
  EXPECT_THAT(launch.set, Contains(Pair("ZF_OPTIMIZER_CPUS", "12-15")));
  const ProcessBinding told = parse_binding(launch.set.at("ZF_BINDING"));
  EXPECT_EQ(told, *launch.binding);
  EXPECT_EQ(print(told.rank.optimizer.cpus), "12-15");
  EXPECT_THAT(launch.set, Contains(Pair("OMP_NUM_THREADS", "4")));
  EXPECT_THAT(launch.set, Contains(Pair("MKL_NUM_THREADS", "4")));
  EXPECT_THAT(launch.set, Not(Contains(Key("OMP_PROC_BIND"))));
}

TEST(Exec, TheUsersThreadCountWinsAndIsMentioned) {
  const Launch launch = launch_by(two_ranks(), kRequest, allowed("0-15"),
                                  environment({{"LOCAL_RANK", "0"}, {"OMP_NUM_THREADS", "9"}}));
  EXPECT_THAT(launch.set, Not(Contains(Key("OMP_NUM_THREADS"))));
  EXPECT_THAT(launch.notes, Contains(HasSubstr("OMP_NUM_THREADS=9")));
}

TEST(Exec, APlanThatDoesNotFitIsNamedCpuByCpu) {
  try {
    launch_by(two_ranks(), kRequest, allowed("0-5,8-15"), environment({{"LOCAL_RANK", "0"}}));
    FAIL() << "a plan for CPUs 6-7 was obeyed where they are not allowed";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::stale_plan);
    EXPECT_THAT(error.what(), HasSubstr("6-7"));
  }
}

TEST(Exec, ARankIsHeldAgainstItsOwnCpusOnly) {
  // srun --cpu-bind gives every task its own mask: rank 1 never sees rank 0's CPUs.
  const Launch launch =
      launch_by(two_ranks(), kRequest, allowed("8-15", "1"), environment({{"SLURM_LOCALID", "1"}}));
  EXPECT_EQ(print(launch.cpus), "8-11");
}

/// How two_ranks() fits where a rank sees `seen`, of `of_job` which the job may use.
Fit fit(const char* seen, int ranks = 2, const char* of_job = nullptr, const char* isolated = "") {
  return fit_of(two_ranks(), ranks, allowed(seen), allowed(of_job == nullptr ? seen : of_job),
                parse_cpu_list(isolated, "test"));
}

TEST(Fit, AllHomesThereKeepTheirPlaces) {
  EXPECT_EQ(fit("0-15"), Fit::as_planned);
  EXPECT_EQ(fit("0-15", 2, "0-31"), Fit::as_planned) << "a mask that leaves all homes whole";
}

TEST(Fit, ACutThroughAllHomesMakesNewOnesForAll) {
  EXPECT_EQ(fit("0-11"), Fit::new_homes) << "if rank 0 kept its CPUs, rank 1's new ones would overlap them";
  EXPECT_EQ(fit("16-31"), Fit::new_homes) << "none of the plan's CPUs";
}

TEST(Fit, OneHomeAndNothingOfTheOtherIsAmbiguous) {
  // The CPUs are the job's, and rank 1 needs some of them; or they are rank 0's alone.
  EXPECT_EQ(fit("0-7"), Fit::ambiguous);
  EXPECT_EQ(fit("0"), Fit::ambiguous) << "one CPU";
}

TEST(Fit, AMaskMayBeTheJobsOrTheRanks) {
  EXPECT_EQ(fit("0-7", 2, "0-15"), Fit::ambiguous) << "rank 0's home: another rank may have the same mask";
  EXPECT_EQ(fit("0-11", 2, "0-15"), Fit::ambiguous);
  EXPECT_EQ(fit("0-7", 4, "0-15"), Fit::ambiguous);
  EXPECT_EQ(fit("0-7", 1, "0-15"), Fit::new_homes) << "a single rank has it alone";
}

TEST(Fit, CpusThatTheKernelIsolatesAreTakenAwayByNobodysMask) {
  EXPECT_EQ(fit("0-11", 2, "0-15", "12-15"), Fit::new_homes) << "init's mask lacks them";
  EXPECT_EQ(fit("0-11", 4, "0-15", "12-15"), Fit::new_homes);
  EXPECT_EQ(fit("0-10", 2, "0-15", "12-15"), Fit::ambiguous) << "CPU 11 is not isolated";
  EXPECT_EQ(fit("0-13", 2, "0-13", "12-15"), Fit::new_homes) << "somebody gave two of them to the job";
}

TEST(Fit, OtherRanksNeedOtherHomes) {
  EXPECT_EQ(fit("0-15", 1), Fit::new_homes);
  EXPECT_EQ(fit("0-15", 4), Fit::new_homes);
}

TEST(Fit, AQuotaThatIsNewAndBelowTheThreadsCounts) {
  Plan plan = two_ranks();
  Allowed here = allowed("0-15");
  here.cpu_quota = 15.5;
  EXPECT_EQ(fit_of(plan, 2, here, here, {}), Fit::new_homes);
  plan.allocation.cpu_quota = 15.5;
  EXPECT_EQ(fit_of(plan, 2, here, here, {}), Fit::as_planned) << "it was made under it";
  here.cpu_quota = 16;
  EXPECT_EQ(fit_of(plan, 2, here, here, {}), Fit::as_planned) << "16 threads";
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

TEST(Exec, ANoteIsOneLineForAShellWhateverThePlanHasInIt) {
  Launch launch;
  launch.notes.emplace_back("the plan's GPU \x1b[2J\u202e\necho INJECTED is not on this node");
  EXPECT_EQ(describe(launch, {"true"}),
            "# the plan's GPU  [2J  echo INJECTED is not on this node\nexec true\n");
}

TEST(Exec, ABatchScriptOfSlurmIsNoRank) {
  const Environment batch =
      environment({{"SLURM_JOB_ID", "7"}, {"SLURM_LOCALID", "0"}, {"SLURM_NODEID", "0"}});
  try {
    resolve_rank(two_ranks(), kRequest, batch);
    FAIL() << "it was taken for rank 0 of two";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::usage);
    EXPECT_THAT(error.what(), HasSubstr("a batch script of Slurm is no rank"));
  }
  Plan one = two_ranks();
  one.ranks.pop_back();
  EXPECT_EQ(resolve_rank(one, kRequest, batch).variable, "the plan's only rank");
  LaunchRequest by_hand = kRequest;
  by_hand.rank = 1;
  EXPECT_EQ(resolve_rank(two_ranks(), by_hand, batch).value, 1);
}

TEST(Exec, DescribesWhatItWouldDoInWordsAShellCouldRun) {
  const Launch launch = launch_by(two_ranks(), kRequest, allowed("0-15"), environment({{"LOCAL_RANK", "1"}}));
  const std::string text = describe(launch, {"python", "train me.py"});
  EXPECT_THAT(text, HasSubstr("export ZF_RANK=1\n"));
  EXPECT_THAT(text, HasSubstr("exec taskset -c 8-11 python 'train me.py'\n"));
}

}  // namespace
}  // namespace zf
