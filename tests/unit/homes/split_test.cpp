#include "homes/split.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "../topology/make_topology.hpp"
#include "plan/reserved_perc.hpp"
#include "random_machine.hpp"
#include "search/controls.hpp"

namespace zf {
namespace {

using testing::ElementsAre;

std::vector<Home> homes_on(const MachineShape& shape, std::size_t ranks, std::string_view allowed = "") {
  const Topology topology = make_topology(shape);
  return homes_of(topology, make_allowed(topology, allowed), std::vector<Preference>(ranks));
}

TEST(Split, TrainingKeepsTheBeginningAndThePoolTakesTheEnd) {
  const auto homes = homes_on({.packages = 2, .l3_per_node = 2, .cores_per_l3 = 12}, 2, kSlurmSparseMask);
  const Split split = split_of(homes, {.pool_cores = 5});
  EXPECT_EQ(split.label, "pool 5, compact");
  EXPECT_EQ(print(split.ranks[0].training), "0,4-11,21-22");
  EXPECT_EQ(print(split.ranks[0].optimizer), "23-26,30");
  EXPECT_EQ(print(split.ranks[1].training), "31-41");
  EXPECT_EQ(print(split.ranks[1].optimizer), "42-46");
  EXPECT_EQ(split.ranks[0].reserved_cores, 11);
  EXPECT_EQ(split.ranks[0].pool_cores, 5);
  EXPECT_FALSE(split.ranks[0].shared);
}

TEST(Split, SpreadTakesFromTheEndOfEachL3Group) {
  const auto homes = homes_on({.l3_per_node = 2, .cores_per_l3 = 4}, 1);
  EXPECT_EQ(print(split_home(homes[0], {3, 1, Placement::spread}).optimizer), "3,6-7");
  EXPECT_EQ(print(split_home(homes[0], {3, 1, Placement::compact}).optimizer), "5-7");
  EXPECT_EQ(split_of(homes, {3, 0, Placement::spread}).label, "pool 3, spread, all siblings");
}

TEST(Split, SiblingsStayOnOneSide) {
  const auto homes = homes_on({.cores_per_l3 = 4, .pus_per_core = 2, .numbering = Numbering::interleaved}, 1);
  const RankSplit one = split_home(homes[0], {.pool_cores = 2, .pool_pus_per_core = 1});
  EXPECT_EQ(print(one.training), "0-1,4-5");
  EXPECT_EQ(print(one.optimizer), "2-3") << "6 and 7 stay idle";
  const RankSplit all = split_home(homes[0], {.pool_cores = 2, .pool_pus_per_core = 0});
  EXPECT_EQ(print(all.training), "0-1,4-5");
  EXPECT_EQ(print(all.optimizer), "2-3,6-7");
  EXPECT_THAT(all.pool, ElementsAre(Pu{2}, Pu{6}, Pu{3}, Pu{7})) << "core by core";
}

TEST(Split, InAHomeOfTwoNodesTrainingGetsTheNearCores) {
  const Topology topology = make_topology({.packages = 2, .cores_per_l3 = 4});
  const auto homes = homes_of(topology, make_allowed(topology, "0-1,4-7"), {{Node{1}}, {Node{1}}});
  const RankSplit split = split_home(homes[1], {.pool_cores = 1});
  EXPECT_EQ(print(split.training), "6-7");
  EXPECT_EQ(print(split.optimizer), "1");
}

TEST(Split, APoolLargerThanTheHomeLeavesOneCoreToTraining) {
  const auto homes = homes_on({.cores_per_l3 = 4}, 1);
  const RankSplit split = split_home(homes[0], {.pool_cores = 99});
  EXPECT_EQ(print(split.training), "0");
  EXPECT_EQ(split.pool_cores, 3);
}

TEST(Split, OneCoreIsBothSides) {
  const auto homes = homes_on({.cores_per_l3 = 1, .pus_per_core = 2}, 1);
  const RankSplit split = split_home(homes[0], {.pool_cores = 1});
  EXPECT_TRUE(split.shared);
  EXPECT_EQ(print(split.training), "0-1");
  EXPECT_EQ(split.training, split.optimizer);
  EXPECT_EQ(split.reserved_cores, 0);

  const RankBinding binding = binding_of_split(3, split);
  EXPECT_EQ(binding.rank, 3);
  EXPECT_TRUE(binding.shared);
  EXPECT_EQ(binding.training.threads, 1);
  EXPECT_EQ(binding.pt_reserved_cores, 0);
  EXPECT_EQ(pus_deepspeed_reserves(binding.pt_reserved_cores_perc, 2), 2)
      << "an empty side: DeepSpeed shares all";
}

TEST(Split, ReservedCoresLeaveTheOthersIdle) {
  const auto homes = homes_on({.cores_per_l3 = 8}, 1);
  const SplitShape shape{.pool_cores = 2, .reserved_cores = 3};
  const Split split = split_of(homes, shape);
  EXPECT_EQ(split.label, "pool 2, compact, 3 reserved");
  EXPECT_EQ(print(split.ranks[0].training), "0-2");
  EXPECT_EQ(print(split.ranks[0].optimizer), "6-7");
  EXPECT_EQ(split.ranks[0].idle_cores, 3);
  EXPECT_EQ(split_home(homes[0], {.pool_cores = 2, .reserved_cores = 99}).idle_cores, 0) << "what is there";
}

TEST(Split, APoolTakesTheCoresOfItsKindFirst) {
  Home home;
  for (int core = 0; core < 8; ++core)
    home.cores.push_back({{Pu{core}}, Node{0}, 0, core < 4 ? 1 : 0, 0, core < 4 ? 1 : 0});
  EXPECT_EQ(print(split_home(home, {.pool_cores = 2, .pool_make = 1}).optimizer), "2-3");
  EXPECT_EQ(print(split_home(home, {.pool_cores = 5, .pool_make = 1}).optimizer), "0-3,7");
  EXPECT_EQ(print(split_home(home, {.pool_cores = 2, .pool_make = 0}).optimizer), "6-7");
}

TEST(Split, TrainingKeepsTheFastCoresWhateverTheirNumbers) {
  Home home;  // slow cores first, as on a DGX Spark
  for (int core = 0; core < 8; ++core) home.cores.push_back({{Pu{core}}, Node{0}, 0, core < 4 ? 0 : 1});
  const RankSplit half = split_home(home, control_shape(Control::half));
  EXPECT_EQ(print(half.training), "4-7");
  EXPECT_EQ(print(half.optimizer), "0-3");
  EXPECT_EQ(print(split_home(home, {.pool_cores = 5}).optimizer), "0-3,7");
  const RankSplit idle = split_home(home, {.pool_cores = 2, .reserved_cores = 3});
  EXPECT_EQ(print(idle.training), "4-6") << "the slow cores stay idle";
  EXPECT_EQ(print(idle.optimizer), "2-3");
}

TEST(Split, TheControlsAreWhatPeopleUse) {
  const auto homes = homes_on({.cores_per_l3 = 9}, 1);
  EXPECT_EQ(split_home(homes[0], {.control = Control::half}).reserved_cores, 5) << "DeepSpeed rounds up";
  EXPECT_EQ(split_home(homes[0], control_shape(Control::eighty_twenty)).pool_cores, 8)
      << "SuperOffload rounds training's fifth down";
  const RankSplit shared = split_home(homes[0], control_shape(Control::shared));
  EXPECT_EQ(shared.pool_cores, 9);
  EXPECT_EQ(shared.training, shared.home);
  EXPECT_TRUE(shared.shared);
}

TEST(Split, UnboundIsEveryCoreForBothSides) {
  const Split split =
      split_of(homes_on({.cores_per_l3 = 4, .pus_per_core = 2}, 2), {.control = Control::unbound});
  for (const RankSplit& rank : split.ranks) {
    EXPECT_TRUE(rank.unbound);
    EXPECT_EQ(print(rank.training), "0-7");
    EXPECT_EQ(rank.training, rank.optimizer);
    EXPECT_EQ(rank.pool.size(), 2U) << "as many threads as its home has cores";
  }
}

TEST(Split, HoldsItsPromisesOnAnyMachine) {
  for (unsigned seed = 1000; seed < 1000 + 300 / ZF_FEWER; ++seed) {
    const RandomCase c = random_case(seed);
    SCOPED_TRACE(c.describe());
    const auto homes = homes_of(c.topology, c.allowed, c.preferences);
    std::vector<Split> splits;
    for (int pool = 1; pool <= 4; ++pool) splits.push_back(split_of(homes, {.pool_cores = pool}));
    for (const Split& control : control_splits(homes)) {
      if (control.shape.control != Control::unbound && !control.shape.shared) splits.push_back(control);
    }
    ASSERT_FALSE(splits.empty());
    for (const Split& split : splits) {
      ASSERT_EQ(split.ranks.size(), homes.size());
      for (std::size_t rank = 0; rank < homes.size(); ++rank) {
        const RankSplit& side = split.ranks[rank];
        EXPECT_FALSE(side.training.empty());
        EXPECT_FALSE(side.optimizer.empty());
        EXPECT_EQ(side.optimizer, CpuSet(side.pool));
        EXPECT_EQ(side.optimizer.size(), side.pool.size());
        EXPECT_TRUE(homes[rank].cpus().contains(side.training | side.optimizer));
        EXPECT_EQ(side.shared, homes[rank].shared);
        if (side.shared) {
          EXPECT_EQ(side.training, side.optimizer);
          continue;
        }
        EXPECT_EQ(side.pool_cores + side.reserved_cores, static_cast<int>(homes[rank].cores.size()));
        EXPECT_FALSE(side.training.intersects(side.optimizer));
        for (const HomeCore& core : homes[rank].cores) {
          EXPECT_FALSE(core.cpus.intersects(side.training) && core.cpus.intersects(side.optimizer));
          EXPECT_TRUE(side.training.contains(core.cpus) || core.cpus.intersects(side.optimizer))
              << "no core is idle";
        }
      }
    }
    if (HasFailure()) return;
  }
}

TEST(Binding, CountsWhatDeepSpeedCounts) {
  const auto homes = homes_on({.cores_per_l3 = 4, .pus_per_core = 2}, 1);
  const RankBinding binding =
      binding_of_split(0, split_home(homes[0], {.pool_cores = 1, .pool_pus_per_core = 1}));
  EXPECT_EQ(print(binding.training.cpus), "0-5");
  EXPECT_EQ(binding.training.threads, 3);
  EXPECT_EQ(print(binding.optimizer.cpus), "6");
  EXPECT_EQ(print(binding.optimizer.mems), "0");
  EXPECT_EQ(binding.pt_reserved_cores, 3);
  EXPECT_DOUBLE_EQ(binding.pt_reserved_cores_perc, 5.5 / 7);
}

TEST(Split, AtItsQuotaAHomeHasOneThreadPerCore) {
  Home home = homes_on({.cores_per_l3 = 4, .pus_per_core = 2}, 1).front();
  const SplitShape all_siblings{.pool_cores = 2, .pool_pus_per_core = 0};
  EXPECT_EQ(split_home(home, all_siblings).pool.size(), 4u);
  home.at_quota = true;
  EXPECT_EQ(split_home(home, all_siblings).pool.size(), 2u);
}

}  // namespace
}  // namespace zf
