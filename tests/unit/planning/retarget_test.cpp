#include "planning/retarget.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../topology/machines.hpp"
#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "gpus/moved_gpus.hpp"
#include "homes/deepspeed_homes.hpp"
#include "homes/rank_homes.hpp"
#include "machine/core_speeds.hpp"
#include "plan/plan_check.hpp"
#include "planning/assemble.hpp"
#include "planning/unmeasured_plan.hpp"

namespace zf {
namespace {

using testing::HasSubstr;

constexpr const char* kTwoSockets = "pack:2 [numa(memory=64GiB)] core:24 pu:1";

Machine machine(const std::string& topology, const char* cpus = nullptr) {
  MachineSource source;
  source.topology = topology;
  if (cpus != nullptr) source.allowed = parse_cpu_list(cpus, "test");
  return read_machine(source);
}

/// Returns the evidence of a plan that was measured: its split is kept when it moves.
Evidence some_evidence() {
  Evidence evidence;
  CandidateEvidence& candidate = evidence.candidates.emplace_back();
  candidate.label = "pool 1";
  candidate.pool_cores = candidate.pool_threads = candidate.reserved_cores = 1;
  return evidence;
}

Plan plan_on(const Machine& machine, int ranks, const SplitShape& shape) {
  const auto homes =
      homes_of(machine.topology, machine.allowed, std::vector<Preference>(static_cast<std::size_t>(ranks)));
  const Split split = split_of(homes, shape);
  Choice choice;
  choice.reason = "a test";
  choice.pool_threads = static_cast<int>(split.ranks.front().pool.size());
  return assemble({"a test", "2026-11-20T21:00:00Z", "node17", "zf-tune"}, machine, {"w", 1000, ranks, 1},
                  split, choice, some_evidence(), {}, {});
}

/// Retargets a plan with no launcher's variables set.
Plan moved_to(const Machine& machine, const Plan& plan, int ranks = 0, const RetargetOptions& options = {}) {
  if (ranks == 0) ranks = plan.workload.ranks;
  return retarget(plan, machine, moved_gpus({}, machine.topology, plan, ranks), options);
}

int pool_of(const Plan& plan, std::size_t rank) {
  return static_cast<int>(plan.ranks[rank].optimizer.cpus.size());
}

TEST(Retarget, SameAllocationSamePlan) {
  const Machine node = machine(kTwoSockets);
  for (const int pool : {1, 6, 12, 23}) {
    const Plan plan = plan_on(node, 2, {pool, 1, Placement::compact});
    EXPECT_EQ(moved_to(node, plan), plan) << pool;
  }
}

TEST(Retarget, SlurmSparse32UsesItsCpusAndKeepsTheShares) {
  const Plan plan = plan_on(machine(kTwoSockets), 2, {12, 1, Placement::compact});
  const Plan moved = moved_to(machine(kTwoSockets, "0,4-11,21-26,30-46"), plan);
  EXPECT_FALSE(find_violation(moved));
  CpuSet used;
  for (const RankBinding& rank : moved.ranks) used |= rank.training.cpus | rank.optimizer.cpus;
  EXPECT_EQ(print(used), "0,4-11,21-26,30-46");
  EXPECT_EQ(pool_of(moved, 0), 8) << "half of 16, as it was half of 24";
  EXPECT_EQ(moved.intent, plan.intent) << "what the next move starts from";
  EXPECT_EQ(moved.made, plan.made);
}

TEST(Retarget, KneeStaysInALargerHome) {
  const Plan plan = plan_on(machine(kTwoSockets, "0-11,24-35"), 2, {4, 1, Placement::compact});
  const Plan moved = moved_to(machine(kTwoSockets), plan);
  EXPECT_EQ(pool_of(moved, 0), 4);
  EXPECT_EQ(moved.ranks[0].training.cpus.size(), 20u);
}

TEST(Retarget, APoolIsCutToItsOwnHomeNotToTheSmallest) {
  const Plan plan = plan_on(machine(kTwoSockets), 2, {12, 1, Placement::compact});
  const Plan moved = moved_to(machine(kTwoSockets, "0-14,24-40"), plan);
  EXPECT_EQ(pool_of(moved, 0), 7) << "half of 15";
  EXPECT_EQ(pool_of(moved, 1), 8) << "half of 17";
}

TEST(Retarget, SameAllocationSamePlanAlsoWithHomesOfTwoSizes) {
  const Machine node = machine(kTwoSockets, "0-14,24-40");
  for (const int pool : {1, 7, 9, 14}) {
    const Plan plan = plan_on(node, 2, {pool, 1, Placement::compact});
    EXPECT_EQ(moved_to(node, plan), plan) << pool;
  }
}

TEST(Retarget, SameAllocationSamePlanAlsoWherePoolsDiffer) {
  const Machine node = machine(kTwoSockets, "0-14,24-40");
  const Plan half = plan_on(node, 2, {.control = Control::half});
  EXPECT_EQ(pool_of(half, 0), 7);
  EXPECT_EQ(pool_of(half, 1), 8);
  EXPECT_EQ(moved_to(node, half).ranks, half.ranks);
}

TEST(Retarget, AMovedPlanStaysAsItIs) {
  const Plan plan = plan_on(machine(kTwoSockets), 2, {12, 1, Placement::compact});
  const Machine part = machine(kTwoSockets, "0-15,24-39");
  const Plan moved = moved_to(part, plan);
  EXPECT_EQ(pool_of(moved, 0), 8) << "half of 16";
  EXPECT_EQ(moved_to(part, moved).ranks, moved.ranks);
  EXPECT_EQ(moved_to(machine(kTwoSockets), moved).ranks, plan.ranks) << "there and back again";
}

TEST(Retarget, CpusNamedAsTheJobsOwnStayItsOwn) {
  const Plan named = plan_on(machine(kTwoSockets, "0-47"), 2, {12, 1, Placement::compact});
  EXPECT_TRUE(named.intent.own_cpus) << "also without a quota";
  EXPECT_TRUE(moved_to(machine(kTwoSockets), named).intent.own_cpus);
  const Plan unnamed = plan_on(machine(kTwoSockets), 2, {12, 1, Placement::compact});
  EXPECT_FALSE(unnamed.intent.own_cpus);
  Machine pod = machine(kTwoSockets);
  pod.allowed.cpu_quota = 8;
  pod.allowed.shared_cpus = true;
  EXPECT_TRUE(moved_to(pod, unnamed).allocation.shared_cpus);
}

TEST(Retarget, IdleCoresStayIdle) {
  const Plan plan = plan_on(machine(kTwoSockets), 2, {6, 1, Placement::compact, 12});
  const Plan moved = moved_to(machine(kTwoSockets, "0-11,24-35"), plan);
  EXPECT_EQ(moved.ranks[0].training.cpus.size(), 6u);
  EXPECT_EQ(pool_of(moved, 0), 3);
}

TEST(Retarget, OneCorePerRankIsShared) {
  const Plan plan = plan_on(machine(kTwoSockets), 2, {12, 1, Placement::compact});
  const Plan moved = moved_to(machine(kTwoSockets, "3,40"), plan);
  EXPECT_FALSE(find_violation(moved));
  EXPECT_TRUE(moved.ranks[0].shared && moved.ranks[1].shared);
  EXPECT_THROW(moved_to(machine(kTwoSockets, "3"), plan), Error) << "two ranks on one core";
  EXPECT_THAT(moved.allocation.notes, testing::ElementsAre(HasSubstr("ranks 0,1 have one core each: ")));
}

TEST(Retarget, OtherRanksShareAllThereIs) {
  const Plan plan = plan_on(machine(kTwoSockets), 8, {2, 1, Placement::compact});
  const Plan two = moved_to(machine(kTwoSockets), plan, 2);
  EXPECT_FALSE(find_violation(two));
  ASSERT_EQ(two.ranks.size(), 2u);
  EXPECT_EQ(print(two.ranks[0].training.cpus | two.ranks[0].optimizer.cpus), "0-23");
  EXPECT_EQ(pool_of(two, 0), 2) << "the knee";
  EXPECT_THAT(two.warnings, testing::ElementsAre(HasSubstr("made for 8 ranks on this node and fitted to 2")));
  const Plan sixteen = moved_to(machine(kTwoSockets), plan, 16);
  EXPECT_FALSE(find_violation(sixteen));
  EXPECT_EQ(sixteen.ranks.size(), 16u);
}

TEST(Retarget, WhatALauncherGaveEachRankIsItsHome) {
  const Plan plan = plan_on(machine(kTwoSockets), 2, {8, 1, Placement::compact});
  RetargetOptions options;
  options.masks = {parse_cpu_list("30-41", "test"), parse_cpu_list("0-3", "test")};
  const Plan moved = moved_to(machine(kTwoSockets), plan, 2, options);
  EXPECT_FALSE(find_violation(moved));
  EXPECT_EQ(print(moved.ranks[0].training.cpus | moved.ranks[0].optimizer.cpus), "30-41");
  EXPECT_EQ(print(moved.ranks[1].training.cpus | moved.ranks[1].optimizer.cpus), "0-3");
  EXPECT_TRUE(moved.warnings.empty());
}

TEST(Retarget, WhatDeepspeedCanBeToldStaysSo) {
  constexpr const char* node = "pack:2 [numa(memory=64GiB)] core:32 pu:1";
  Plan plan = plan_on(machine(node), 2, {16, 1, Placement::compact});
  const Machine holes = machine(node, "0,4-11,21-26,30-46");
  const auto is_told = [&](const Plan& moved) {
    std::vector<Home> homes;
    Split split;
    for (const RankBinding& rank : moved.ranks) {
      RankSplit sides;
      sides.training = rank.training.cpus;
      sides.optimizer = rank.optimizer.cpus;
      sides.reserved_cores = static_cast<int>(rank.training.cpus.size());
      sides.pool_cores = static_cast<int>(rank.optimizer.cpus.size());
      sides.mems = rank.optimizer.mems;
      sides.pool.assign(rank.optimizer.cpus.begin(), rank.optimizer.cpus.end());
      split.ranks.push_back(sides);
    }
    return deepspeed_objection(split, holes.topology).empty();
  };
  EXPECT_FALSE(is_told(moved_to(holes, plan)));
  const Plan asked = moved_to(holes, plan, 2, {.for_deepspeed = true});
  EXPECT_TRUE(is_told(asked));
  EXPECT_TRUE(asked.intent.for_deepspeed);
  plan.intent.for_deepspeed = true;
  EXPECT_TRUE(is_told(moved_to(holes, plan)));
}

TEST(Retarget, RanksStayWithTheirGpusAndTheNotesAreNew) {
  Machine node = machine(kTwoSockets);
  node.topology.gpus = {{"0000:81:00.0", "a GPU", parse_cpu_list("24-47", "test"), Node{1}}};
  Plan plan = plan_on(node, 2, {12, 1, Placement::compact});
  plan.ranks[0].gpu = RankGpu{"0000:81:00.0", Node{1}, parse_cpu_list("24-47", "test"), {}};
  plan.allocation.notes = {"of another allocation"};
  const Plan moved = moved_to(node, plan);
  EXPECT_EQ(print(moved.ranks[0].training.cpus | moved.ranks[0].optimizer.cpus), "24-47");
  EXPECT_EQ(moved.ranks[0].gpu, plan.ranks[0].gpu);
  EXPECT_EQ(moved.allocation.notes, std::vector<std::string>());
}

TEST(Retarget, NoMemoryIsPreferredWhereTheNodesContradictAndTheReasonSaysSo) {
  Machine node = machine(kTwoSockets);
  const Plan elsewhere = plan_on(node, 2, {12, 1, Placement::compact});
  node.topology.nodes_contradict = true;
  const Plan plan = moved_to(node, elsewhere);
  EXPECT_EQ(plan.choice.reason,
            "a test. No memory node is preferred, because the files of this machine contradict each other "
            "about its "
            "NUMA nodes");
  for (const RankBinding& rank : plan.ranks) {
    EXPECT_EQ(rank.optimizer.memory_policy, MemoryPolicy::none);
    EXPECT_EQ(print(rank.optimizer.mems), "0-1");
    EXPECT_TRUE(preferred_mems(rank.optimizer).empty());
  }
  EXPECT_FALSE(find_violation(plan));
  EXPECT_EQ(moved_to(node, plan), plan) << "the reason says it once";
  node.topology.nodes_contradict = false;
  EXPECT_EQ(moved_to(node, plan), elsewhere);
  node.topology.nodes_contradict = true;
  node.allowed.mems = {Node{1}};
  EXPECT_EQ(moved_to(node, plan).ranks[0].optimizer.memory_policy, MemoryPolicy::preferred) << "there is one";
  EXPECT_EQ(moved_to(node, plan).choice.reason, "a test");
}

/// Returns a plan for ranks on the first GPUs of the machine.
Plan plan_near_gpus(const Machine& machine, int ranks) {
  const RankHomes homes = rank_homes(machine, rank_gpus({}, machine.topology, ranks));
  Choice choice;
  choice.reason = "a test";
  return assemble({"a test", "2026-11-20T21:00:00Z", "node17", "zf-tune"}, machine, {"w", 1000, ranks, 1},
                  split_of(homes.homes, {.pool_cores = 4}), choice, some_evidence(), {}, homes.notes);
}

/// Retargets a plan as a rank does: the GPUs are those of the plan.
Plan fitted_to(Machine machine, const Plan& plan, int ranks) {
  machine.topology.gpus = planned_gpus(plan, machine.topology);
  return moved_to(machine, plan, ranks);
}

TEST(Retarget, RanksStayWithGpusNearAPartOfANode) {
  const std::string node = own_machine("mi250x-crossed.xml");
  const Plan plan = plan_near_gpus(machine(node), 8);
  const Plan without_cpu_0 = fitted_to(machine(node, "1-63,65-127"), plan, 8);
  std::vector<std::string> homes;
  for (const RankBinding& rank : without_cpu_0.ranks) homes.push_back(print(rank.home.cpus));
  EXPECT_THAT(homes, testing::ElementsAre("56-63,120-127", "48-55,112-119", "24-31,88-95", "16-23,80-87",
                                          "8-15,72-79", "1-7,65-71", "40-47,104-111", "32-39,96-103"));

  const Plan of_three = fitted_to(machine(node), plan, 3);
  ASSERT_EQ(of_three.ranks.size(), 3U);
  for (const RankBinding& rank : of_three.ranks) {
    ASSERT_TRUE(rank.gpu);
    EXPECT_EQ(rank.gpu, plan.ranks[static_cast<std::size_t>(rank.rank)].gpu);
    EXPECT_TRUE(rank.home.cpus.contains(rank.gpu->cpus)) << "rank " << rank.rank;
  }
}

/// Returns an unmeasured plan for ranks with this share of the GPUs.
Plan plan_with_share(const Machine& machine, int ranks, GpuShare share) {
  const RankGpus gpus = rank_gpus({}, machine.topology, ranks, share);
  return unmeasured_plan(machine, gpus, {"w", 1000, ranks, 1}, false, "zf-tune");
}

std::vector<std::string> homes_in(const Plan& plan) {
  std::vector<std::string> homes;
  for (const RankBinding& rank : plan.ranks) homes.push_back(print(rank.home.cpus));
  return homes;
}

TEST(Retarget, RanksStayNearAllTheirGpus) {
  const std::string node = own_machine("eight-gpus.xml");
  const Plan plan = plan_with_share(machine(node), 4, {2, 0});
  EXPECT_EQ(plan.intent.gpus_per_rank, 2);
  EXPECT_EQ(plan.ranks[3].more_gpus.at(0).cuda_number, 7);
  EXPECT_THAT(homes_in(plan), testing::ElementsAre("0-7", "8-15", "16-23", "24-31"));
  const Plan same = fitted_to(machine(node), plan, 4);
  EXPECT_EQ(same.ranks, plan.ranks);
  EXPECT_EQ(same.intent, plan.intent);
  const Plan smaller = fitted_to(machine(node, "0-3,8-11,16-19,24-27"), plan, 4);
  EXPECT_THAT(homes_in(smaller), testing::ElementsAre("0-3", "8-11", "16-19", "24-27"));
  EXPECT_THAT(homes_in(plan_with_share(machine(node), 16, {0, 2})), testing::Contains("30-31").Times(1));
  const Plan shared = plan_with_share(machine(node), 16, {0, 2});
  EXPECT_EQ(fitted_to(machine(node), shared, 16).ranks, shared.ranks);
  EXPECT_EQ(find_violation(plan), std::nullopt);
}

TEST(Retarget, TheOfferToSpreadStaysAsLongAsItHolds) {
  const std::string node = own_machine("eight-gpus.xml");
  const Plan plan = plan_with_share(machine(node), 4, {});
  EXPECT_EQ(plan.ranks[3].spread_gpu->cuda_number, 6);
  EXPECT_EQ(fitted_to(machine(node), plan, 4).ranks, plan.ranks);
  EXPECT_FALSE(fitted_to(machine(node), plan, 2).ranks[0].spread_gpu) << "of four ranks";
  const Plan half = fitted_to(machine(node, "0-15"), plan, 4);
  EXPECT_FALSE(half.ranks[0].spread_gpu) << "no CPU near GPUs 4 and 6";
}

/// Returns a machine of 4 slow and then 4 fast cores.
Machine two_makes() {
  Machine node = machine("pack:1 [numa(memory=64GiB)] core:8 pu:1");
  node.topology.cpu_kinds = {{parse_cpu_list("0-3", "test"), 0, "small"},
                             {parse_cpu_list("4-7", "test"), 1, "big"}};
  for (Core& core : node.topology.cores) core.kind = core.cpus.first() < Pu{4} ? 0 : 1;
  return node;
}

TEST(Retarget, APoolStaysOnItsMakeWhereSomeCoresAreSlowToday) {
  const Machine node = two_makes();
  Machine divided = node;
  std::vector<CoreSpeed> speeds(8);
  for (std::size_t core = 0; core < 8; ++core) speeds[core].priority = core < 2 ? 40 : 60;
  divide_kinds_by_speed(divided.topology, speeds);
  ASSERT_EQ(divided.topology.cpu_kinds.size(), 3U) << "0-1, 2-3 and 4-7";

  const Plan plan = plan_on(node, 1, {.pool_cores = 2, .pool_make = 1});
  EXPECT_EQ(print(plan.ranks[0].optimizer.cpus), "6-7");
  const Plan moved = moved_to(divided, plan);
  EXPECT_EQ(print(moved.ranks[0].optimizer.cpus), "6-7");
  EXPECT_EQ(moved.intent, plan.intent);
  const Plan made_there = plan_on(divided, 1, {.pool_cores = 2, .pool_make = 1});
  EXPECT_EQ(made_there.intent, plan.intent);
  EXPECT_EQ(print(moved_to(node, made_there).ranks[0].optimizer.cpus), "6-7");
  const Plan on_small = plan_on(node, 1, {.pool_cores = 2, .pool_make = 0});
  EXPECT_EQ(print(moved_to(divided, on_small).ranks[0].optimizer.cpus), "0-1") << "the slow ones of today";
}

TEST(Retarget, AMemoryTierIsKept) {
  ZF_NEED_MACHINE(path, "knl-snc4-flat-hwloc1.xml");
  MachineSource source;
  source.topology = path;
  source.mems = NodeSet{Node{4}, Node{5}, Node{6}, Node{7}};
  const Plan plan = plan_on(read_machine(source), 4, {4, 1, Placement::compact});
  EXPECT_EQ(print(plan.ranks[0].optimizer.mems), "4") << "MCDRAM of the first cluster";
  const Plan moved = moved_to(machine(path, "0-15"), plan);
  EXPECT_EQ(print(moved.ranks[0].optimizer.mems), "4");
  EXPECT_EQ(moved_to(machine(path), moved), plan) << "there and back again";
  source.mems = NodeSet{Node{0}, Node{1}, Node{2}, Node{3}};
  EXPECT_EQ(print(moved_to(read_machine(source), plan).ranks[0].optimizer.mems), "0") << "no tier is allowed";
}

TEST(Retarget, AnotherClassIsRefusedWithTheDifferences) {
  const Plan plan = plan_on(machine(kTwoSockets), 2, {12, 1, Placement::compact});
  try {
    moved_to(machine("pack:2 [numa(memory=64GiB)] core:32 pu:1"), plan);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::stale_plan);
    EXPECT_THAT(error.what(), HasSubstr("cores: 48 in the plan, 64 here"));
  }
}

TEST(Retarget, AnotherClassMayBeForcedAndIsRemembered) {
  const Plan plan = plan_on(machine(kTwoSockets), 2, {12, 1, Placement::compact});
  const Plan moved =
      moved_to(machine("pack:2 [numa(memory=64GiB)] core:32 pu:1"), plan, 2, {.any_class = true});
  EXPECT_FALSE(find_violation(moved));
  EXPECT_EQ(moved.machine.cores, 64);
  EXPECT_EQ(pool_of(moved, 0), 12);
  EXPECT_THAT(moved.warnings,
              testing::ElementsAre(HasSubstr("another class: cores: 48 in the plan, 64 here")));
}

TEST(Retarget, MeasurementsOfOtherHomesAreMarkedUntilThePlanComesBack) {
  const Machine whole = machine(kTwoSockets);
  const Machine part = machine(kTwoSockets, "0-11,24-35");
  Plan plan = plan_on(whole, 2, {6, 1, Placement::compact});
  plan.evidence.candidates.clear();
  Plan unmeasured = moved_to(part, plan);
  mark_older_evidence(plan, unmeasured);
  EXPECT_THAT(unmeasured.warnings, testing::IsEmpty()) << "nothing was measured";

  plan.evidence.candidates.resize(1);
  const auto moved_and_marked = [](const Machine& to, const Plan& from) {
    Plan moved = moved_to(to, from);
    mark_older_evidence(from, moved);
    return moved;
  };
  EXPECT_THAT(moved_and_marked(whole, plan).warnings, testing::IsEmpty()) << "the same homes";
  const Plan moved = moved_and_marked(part, plan);
  const std::string warning = "the measurements were made on other homes: 0-23 | 24-47";
  EXPECT_THAT(moved.warnings, testing::ElementsAre(warning));
  EXPECT_EQ(moved.evidence, plan.evidence);
  const Plan again = moved_and_marked(machine(kTwoSockets, "0-5,24-29"), moved);
  EXPECT_THAT(again.warnings, testing::ElementsAre(warning)) << "still those that were measured";
  EXPECT_THAT(moved_and_marked(whole, again).warnings, testing::IsEmpty()) << "back";
}

}  // namespace
}  // namespace zf
