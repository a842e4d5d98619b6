#include "homes/shared_homes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "../machine/sysroot_machine.hpp"
#include "../topology/make_topology.hpp"
#include "base/error.hpp"
#include "homes/deepspeed_homes.hpp"
#include "homes/rank_homes.hpp"
#include "homes/split.hpp"
#include "plan/plan_check.hpp"
#include "plan/plan_json.hpp"
#include "planning/other_homes.hpp"
#include "planning/retarget.hpp"
#include "planning/unmeasured_plan.hpp"
#include "search/candidates.hpp"
#include "search/controls.hpp"

namespace zf {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// Returns a node of a Kubernetes cluster as a pod with a quota sees it: two packages of 32 cores, four GPUs
/// each. The CPUs of package 0 are 0-63.
Machine pod(double quota) {
  Machine machine;
  machine.topology = make_topology({.packages = 2, .l3_per_node = 4, .cores_per_l3 = 8, .pus_per_core = 2});
  for (std::size_t gpu = 0; gpu < 8; ++gpu) {
    const NumaNode& node = machine.topology.nodes.at(gpu / 4);
    machine.topology.gpus.push_back({format_text("0000:{}0:00.0", gpu + 1), "a GPU", node.cpus, node.id});
  }
  machine.allowed = make_allowed(machine.topology);
  machine.allowed.cpu_quota = quota;
  machine.allowed.cpu_quota_path = "/sys/fs/cgroup/cpu.max";
  machine.allowed.shared_cpus = true;
  return machine;
}

/// Returns the GPUs of ranks that see these of the node's.
RankGpus ranks_on(const Machine& machine, const std::vector<int>& gpus) {
  RankGpus ranks;
  for (const int gpu : gpus)
    ranks.gpus.push_back(gpu < 0 ? std::nullopt
                                 : std::optional(machine.topology.gpus.at(static_cast<std::size_t>(gpu))));
  return ranks;
}

Plan plan_of(const Machine& machine, const std::vector<int>& gpus, Mode mode = Mode::wait) {
  Workload workload{"params", 1000, static_cast<int>(gpus.size()), 1};
  workload.mode = mode;
  return unmeasured_plan(machine, ranks_on(machine, gpus), workload, false, "zf-tune plan");
}

void expect_sound(const Plan& plan) {
  const auto violation = find_violation(plan);
  EXPECT_FALSE(violation) << violation->field << ": " << violation->what;
  EXPECT_EQ(parse_plan(print_plan(plan), "plan.json"), plan);
}

TEST(QuotaPods, TwoPodsOfANodeShareTheCpusOfTheirGpus) {
  for (const int gpu : {0, 1}) {  // pod A has GPU 0, pod B has GPU 1
    const Plan plan = plan_of(pod(8), {gpu});
    expect_sound(plan);
    EXPECT_TRUE(plan.allocation.shared_cpus);
    const RankBinding& rank = plan.ranks.front();
    for (const CpuSet& cpus : {rank.home.cpus, rank.training.cpus, rank.optimizer.cpus})
      EXPECT_EQ(print(cpus), "0-63") << "none of them is idle";
    EXPECT_EQ(rank.home.threads, 8);
    EXPECT_EQ(rank.training.threads, 8);
    EXPECT_EQ(rank.optimizer.threads, 8);
    EXPECT_EQ(print(rank.optimizer.mems), "0");
    EXPECT_THAT(plan.choice.reason, HasSubstr("Neighbours share these CPUs"));
    EXPECT_THAT(plan.allocation.notes,
                ElementsAre("the CPU quota of 8 (/sys/fs/cgroup/cpu.max) pays for 8 threads per rank"));
  }
}

TEST(QuotaPods, RanksOfOnePackageShareItsCpusAndDivideTheThreads) {
  const Plan plan = plan_of(pod(21), {0, 1, 4});
  expect_sound(plan);
  std::vector<std::string> homes;
  for (const RankBinding& rank : plan.ranks) {
    homes.push_back(print(rank.home.cpus));
    EXPECT_EQ(rank.optimizer.threads, 7);
  }
  EXPECT_THAT(homes, ElementsAre("0-63", "0-63", "64-127"));
}

TEST(QuotaPods, WithoutAGpuTheThreadsHaveAllNodes) {
  const Plan plan = plan_of(pod(8), {-1});
  expect_sound(plan);
  EXPECT_EQ(print(plan.ranks.front().home.cpus), "0-127");
  EXPECT_EQ(print(plan.ranks.front().optimizer.mems), "0-1");
}

TEST(QuotaPods, AQuotaForMoreThanACorePerThreadPaysForNoSiblings) {
  EXPECT_EQ(plan_of(pod(100), {0}).ranks.front().optimizer.threads, 32);
  EXPECT_EQ(plan_of(pod(100), {0, 1, 2}).ranks.front().optimizer.threads, 10);
}

TEST(QuotaPods, BelowOneCpuARankHasOneThreadAndAWarning) {
  const Plan plan = plan_of(pod(1.5), {0, 1}, Mode::overlap);
  expect_sound(plan);
  for (const RankBinding& rank : plan.ranks) {
    EXPECT_TRUE(rank.shared);
    EXPECT_EQ(rank.training.threads, 1);
    EXPECT_EQ(rank.optimizer.threads, 1);
  }
  EXPECT_THAT(plan.allocation.notes, ElementsAre(HasSubstr("is less than one CPU per rank")));
  EXPECT_THAT(plan.choice.reason, HasSubstr("Each side of a rank has one thread"));
}

TEST(QuotaPods, ModesThatDivideTheHomeDivideItsThreads) {
  const Plan plan = plan_of(pod(9.5), {0}, Mode::overlap);
  expect_sound(plan);
  const RankBinding& rank = plan.ranks.front();
  EXPECT_FALSE(rank.shared);
  EXPECT_EQ(print(rank.training.cpus), "0-63");
  EXPECT_EQ(print(rank.optimizer.cpus), "0-63");
  EXPECT_EQ(rank.training.threads + *rank.optimizer.threads, 9);
  EXPECT_EQ(rank.pt_reserved_cores, rank.training.threads);
  EXPECT_EQ(cores_of_ranks(plan), 64U) << "so that 9.5 CPUs' time is what it lacks, not cores";
  EXPECT_EQ(threads_at_once(plan), 9U);
  EXPECT_EQ(threads_at_once(plan_of(pod(9.5), {0})), 9U) << "in mode wait the sides take turns";
}

TEST(QuotaPods, DeepspeedCannotBeToldAndSaysWhy) {
  const Machine machine = pod(8);
  Workload workload{"params", 1000, 1, 1};
  try {
    unmeasured_plan(machine, ranks_on(machine, {0}), workload, true, "zf-tune plan");
    FAIL() << "DeepSpeed would cut these CPUs";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::infeasible);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("--for deepspeed"), HasSubstr("neighbours share")));
  }
  EXPECT_THAT(why_not_deepspeed(plan_of(machine, {0}).ranks, 64).value_or(""), HasSubstr("neighbours share"));
}

TEST(QuotaPods, APlanMovesBetweenSharedAndOwnCpus) {
  const Machine shared = pod(8);
  Machine own = pod(8);
  own.allowed.cpus = parse_cpu_list("0-15", "test");
  own.allowed.shared_cpus = false;
  const Plan plan = plan_of(shared, {0});
  EXPECT_EQ(retarget(plan, shared, ranks_on(shared, {0})), plan);

  const Plan pinned = retarget(plan, own, ranks_on(own, {0}));
  expect_sound(pinned);
  EXPECT_EQ(print(pinned.ranks.front().home.cpus), "0-15");
  EXPECT_FALSE(pinned.ranks.front().optimizer.threads);
  EXPECT_THAT(pinned.choice.reason, Not(HasSubstr("Neighbours")));

  const Plan back = retarget(pinned, shared, ranks_on(shared, {0}));
  expect_sound(back);
  EXPECT_EQ(back.ranks, plan.ranks);
  EXPECT_EQ(back.choice.reason, plan.choice.reason);
}

TEST(QuotaPods, APlanThatPinsIsSaidToShareItsCpusWithNeighbours) {
  Machine unaware = pod(8);
  unaware.allowed.shared_cpus = false;  // as for plans of older versions
  const Plan pinned = plan_of(unaware, {0});
  EXPECT_THAT(better_homes_note(pinned, pod(8)).value_or(""), HasSubstr("neighbours share these CPUs"));
  EXPECT_FALSE(better_homes_note(plan_of(pod(8), {0}), pod(8)));
}

TEST(QuotaPods, CandidatesDivideThreadsAndNotCpus) {
  const Machine machine = pod(8);
  const std::vector<Home> homes = rank_homes(machine, ranks_on(machine, {0})).homes;
  std::vector<TriedSplit> tried;
  const auto add = [&](const Split& split) {
    const RankSplit& rank = split.ranks.front();
    const auto pool = static_cast<double>(rank.pool.size());
    tried.push_back({split, 1e9 / pool, 1e9 / pool, 1e8 + 1e7 * pool, 1e9 / pool + 1e8});
    if (rank.unbound) return;
    EXPECT_TRUE(rank.floats);
    EXPECT_EQ(print(rank.optimizer), "0-63") << split.label;
    EXPECT_EQ(print(rank.training), "0-63") << split.label;
    if (!rank.shared) {
      EXPECT_EQ(rank.reserved_cores + static_cast<int>(pool), 8) << split.label;
    }
  };
  for (const Split& split : control_splits(homes)) add(split);
  const Schedule overlap{Mode::overlap, 1};
  for (auto more = promising_splits(homes, tried, overlap, 0.02, 3, SharedPools::any);
       !more.empty() && tried.size() < 30;
       more = promising_splits(homes, tried, overlap, 0.02, 3, SharedPools::any)) {
    for (const Split& split : more) add(split);
  }
  EXPECT_GT(tried.size(), 5U);
  EXPECT_LT(tried.size(), 20U) << "no siblings, no L3 groups, no kinds: they have no threads of their own";
}

TEST(QuotaPods, AreSeenInTheFilesOfANode) {
  Tree tree;
  add_cores(tree, 8);
  tree.file("/proc/self/cgroup", "0::/pod")
      .file("/proc/self/mountinfo", "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw")
      .file("/sys/fs/cgroup/pod/cpuset.cpus.effective", "0-7")
      .file("/sys/fs/cgroup/pod/cpu.max", "200000 100000");
  EXPECT_TRUE(machine_in(tree).allowed.shared_cpus);
  tree.file("/sys/fs/cgroup/pod/cpuset.cpus.effective", "0-3");
  EXPECT_TRUE(machine_in(tree).allowed.shared_cpus)
      << "the pool that Kubernetes' static policy leaves to others";
  tree.file("/sys/fs/cgroup/pod/cpu.max", "400000 100000");
  EXPECT_FALSE(machine_in(tree).allowed.shared_cpus) << "as much time as CPUs";
}

}  // namespace
}  // namespace zf
