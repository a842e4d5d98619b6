#include "tuner/split.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "make_topology.hpp"
#include "plan/reserved_perc.hpp"
#include "random_machine.hpp"
#include "tuner/binding.hpp"

namespace zf {
namespace {

using testing::ElementsAre;

std::vector<Home> homes_on(const MachineShape& shape, std::size_t ranks, std::string_view allowed = "") {
  const Topology topology = make_topology(shape);
  return homes_of(topology, make_allowed(topology, allowed), std::vector<RankWish>(ranks));
}

std::vector<int> sizes_of(const std::vector<SplitShape>& shapes) {
  std::vector<int> sizes;
  for (const SplitShape& shape : shapes) sizes.push_back(shape.pool_cores);
  return sizes;
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

TEST(Split, CoarseShapesGrowGeometricallyUpToAllButOneCore) {
  EXPECT_THAT(sizes_of(coarse_shapes(homes_on({.cores_per_l3 = 32}, 1))),
              ElementsAre(1, 2, 3, 4, 6, 8, 12, 16, 24, 31));
  EXPECT_THAT(sizes_of(coarse_shapes(homes_on({.cores_per_l3 = 2}, 1))), ElementsAre(1));
  EXPECT_THAT(sizes_of(coarse_shapes(homes_on({.cores_per_l3 = 1}, 1))), ElementsAre(1));
  EXPECT_THAT(sizes_of(coarse_shapes(homes_on({.cores_per_l3 = 3}, 1))), ElementsAre(1, 2));
  EXPECT_THAT(sizes_of(coarse_shapes(homes_on({.cores_per_l3 = 9}, 2))), ElementsAre(1, 2, 3))
      << "of the smaller home";
}

TEST(Split, CoarseShapesTryPlacementsAndSiblingsOnlyWhereTheyDiffer) {
  const auto two_groups = coarse_shapes(homes_on({.l3_per_node = 2, .cores_per_l3 = 2}, 1));
  EXPECT_THAT(two_groups,
              ElementsAre(SplitShape{.pool_cores = 1}, SplitShape{2, 1, Placement::compact},
                          SplitShape{2, 1, Placement::spread}, SplitShape{3, 1, Placement::compact}));
  const auto smt = coarse_shapes(homes_on({.cores_per_l3 = 2, .pus_per_core = 2}, 1));
  EXPECT_THAT(smt, ElementsAre(SplitShape{.pool_cores = 1}, SplitShape{1, 0, Placement::compact}));
}

TEST(Split, RefinedShapesCloseInOnTheKnee) {
  const auto homes = homes_on({.cores_per_l3 = 32}, 1);
  auto tried = coarse_shapes(homes);
  const SplitShape knee{12, 1, Placement::compact};
  const auto first = refined_shapes(homes, knee, tried);
  EXPECT_THAT(sizes_of(first), ElementsAre(9, 10, 11, 13, 14, 15));
  tried.insert(tried.end(), first.begin(), first.end());
  EXPECT_TRUE(refined_shapes(homes, knee, tried).empty());
  EXPECT_TRUE(refined_shapes(homes, {1, 1, Placement::compact}, tried).empty());
  EXPECT_THAT(sizes_of(refined_shapes(homes, {31, 1, Placement::compact}, {})), ElementsAre(25, 27, 29));
}

TEST(Split, RefiningEndsAfterAFewRoundsOnALargeHome) {
  const auto homes = homes_on({.cores_per_l3 = 384}, 1);
  auto tried = coarse_shapes(homes);
  const std::size_t coarse = tried.size();
  const SplitShape knee{200, 1, Placement::compact};
  for (auto more = refined_shapes(homes, knee, tried); !more.empty();
       more = refined_shapes(homes, knee, tried)) {
    for (const SplitShape& shape : more) EXPECT_EQ(std::count(tried.begin(), tried.end(), shape), 0);
    tried.insert(tried.end(), more.begin(), more.end());
    ASSERT_LE(tried.size(), coarse + 40);
  }
}

TEST(Split, HoldsItsPromisesOnAnyMachine) {
  for (unsigned seed = 1000; seed < 1300; ++seed) {
    const RandomCase c = random_case(seed);
    SCOPED_TRACE(c.describe());
    const auto homes = homes_of(c.topology, c.allowed, c.wishes);
    const auto shapes = coarse_shapes(homes);
    ASSERT_FALSE(shapes.empty());
    for (const SplitShape& shape : shapes) {
      const Split split = split_of(homes, shape);
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
        EXPECT_EQ(side.pool_cores,
                  std::min(shape.pool_cores, static_cast<int>(homes[rank].cores.size()) - 1));
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

}  // namespace
}  // namespace zf
