#include "search/candidates.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>

#include "../topology/make_topology.hpp"
#include "homes/homes.hpp"
#include "overlap.hpp"
#include "search/families.hpp"

namespace zf {
namespace {

using testing::Contains;
using testing::ElementsAre;

std::vector<Home> homes_on(const MachineShape& shape, std::size_t ranks) {
  const Topology topology = make_topology(shape);
  return homes_of(topology, make_allowed(topology), std::vector<Preference>(ranks));
}

std::vector<std::string> labels_of(const std::vector<Split>& splits) {
  std::vector<std::string> labels;
  for (const Split& split : splits) labels.push_back(split.label);
  return labels;
}

/// The times of a split on an imaginary machine: step, roofline, training step.
struct Sides {
  double step_ns;
  double roofline_ns;
  double training_ns;
};
using Model = std::function<Sides(const Split&)>;

/// Tries all proposed splits until none is proposed any more, and returns them.
std::vector<TriedSplit> search(const std::vector<Home>& homes, const Model& model,
                               const Schedule& schedule = kOverlap) {
  std::vector<TriedSplit> tried;
  const auto add = [&](const Split& split) {
    const Sides sides = model(split);
    tried.push_back({split, sides.step_ns, sides.roofline_ns, sides.training_ns,
                     period_of(sides.training_ns, sides.step_ns, schedule)});
  };
  for (const Split& split : control_splits(homes)) add(split);
  for (auto more = promising_splits(homes, tried, schedule, 0.02, 3, SharedPools::any); !more.empty();
       more = promising_splits(homes, tried, schedule, 0.02, 3, SharedPools::any)) {
    for (const Split& split : more) add(split);
    EXPECT_LE(tried.size(), 30U);
    if (tried.size() > 30) break;
  }
  return tried;
}

/// Returns the best of those that a plan can express.
const TriedSplit& best_of(const std::vector<TriedSplit>& tried) {
  const auto key = [](const TriedSplit& one) {
    return std::pair(one.split.shape.control == Control::unbound, one.period_ns);
  };
  return *std::min_element(tried.begin(), tried.end(),
                           [&](const auto& a, const auto& b) { return key(a) < key(b); });
}

TEST(Candidates, TheControlsAreThereUnlessTheyAreTheSame) {
  EXPECT_THAT(labels_of(control_splits(homes_on({.cores_per_l3 = 16}, 2))),
              ElementsAre("shared home", "half and half", "80/20", "unbound"));
  EXPECT_THAT(labels_of(control_splits(homes_on({.cores_per_l3 = 2}, 1))),
              ElementsAre("shared home", "half and half", "unbound"));
  EXPECT_THAT(labels_of(control_splits(homes_on({.cores_per_l3 = 1}, 1))), ElementsAre("pool 1, compact"))
      << "a rank with one core leaves nothing to compare";
}

TEST(Candidates, FindWhereTheTwoSidesMeetBetweenTwoSizes) {
  const auto homes = homes_on({.cores_per_l3 = 96}, 1);
  const auto tried = search(homes, [](const Split& split) {
    const int pool = split.ranks[0].pool_cores;
    // Both sides take equally long at 31.
    return Sides{2800.0 / pool, 2800.0 / pool, split.shape.shared ? 200.0 : 60.0 + pool};
  });
  EXPECT_NEAR(best_of(tried).split.shape.pool_cores, 31, 1);
}

TEST(Candidates, SiblingsAndSpreadAreTriedWhereTheyCouldPay) {
  const auto homes = homes_on({.l3_per_node = 4, .cores_per_l3 = 4, .pus_per_core = 2}, 1);
  const auto tried = search(homes, [](const Split& split) {
    const RankSplit& rank = split.ranks[0];
    const double gain =
        (split.shape.placement == Placement::spread ? 1.5 : 1) * (rank.pool.size() > 8 ? 1.2 : 1);
    const double step = 1000 / gain / rank.pool_cores;
    return Sides{step, step, split.shape.shared ? 200.0 : 50.0 + rank.pool_cores};
  });
  EXPECT_EQ(best_of(tried).split.shape.placement, Placement::spread);
  const auto idle = search(homes, [](const Split&) { return Sides{1, 1, 100}; });
  EXPECT_LE(
      std::count_if(idle.begin(), idle.end(),
                    [](const TriedSplit& one) { return one.split.shape.placement == Placement::spread; }),
      1)
      << "nothing to gain but what a small pool shows";
}

TEST(Candidates, CoresAreLeftIdleWhereTheyOnlyTakeBandwidth) {
  const auto homes = homes_on({.cores_per_l3 = 32}, 1);
  const auto tried = search(homes, [](const Split& split) {
    const RankSplit& rank = split.ranks[0];
    const double alone = 40.0 + rank.pool_cores;  // saturated: more threads only synchronize more
    if (split.shape.shared || rank.unbound) return Sides{200, 200, 200};
    return Sides{alone + 3.0 * rank.reserved_cores, alone, 30.0 + 100.0 / rank.reserved_cores};
  });
  EXPECT_GT(best_of(tried).split.ranks[0].idle_cores, 0);
  EXPECT_LT(best_of(tried).period_ns, 0.95 * 78) << "the best without idle cores";
}

TEST(Candidates, KindsAreTriedApart) {
  Topology topology = make_topology({.cores_per_l3 = 8});
  for (std::size_t core = 0; core < 4; ++core) topology.cores[core].kind = 1;
  const auto homes = homes_of(topology, make_allowed(topology), std::vector<Preference>(1));
  const auto tried = search(homes, [](const Split& split) {
    double slowest = 2;
    for (const Pu pu : split.ranks[0].pool) slowest = std::min(slowest, pu.os_index < 4 ? 2.0 : 1.0);
    const double step = 100 / slowest / static_cast<double>(split.ranks[0].pool.size());
    return Sides{step, step, 1};
  });
  EXPECT_THAT(labels_of([&] {
                std::vector<Split> splits;
                for (const TriedSplit& one : tried) splits.push_back(one.split);
                return splits;
              }()),
              Contains("pool 4, compact, make 1"));
}

TEST(Candidates, TheSmallestPoolThatTiesIsLookedFor) {
  const auto homes = homes_on({.cores_per_l3 = 64}, 1);
  const auto tried = search(homes, [](const Split& split) {
    const double step = 1000.0 / std::min(split.ranks[0].pool_cores, 19);
    return Sides{step, step, 0};
  });
  EXPECT_TRUE(std::any_of(tried.begin(), tried.end(),
                          [](const TriedSplit& one) { return one.split.shape.pool_cores == 19; }));
}

TEST(Candidates, OfSplitsThatLoseNothingNoneIsLookedFor) {
  const auto homes = homes_on({.cores_per_l3 = 64}, 1);
  const auto tried = search(homes, [](const Split& split) {
    const double step = 1000.0 / split.ranks[0].pool_cores;
    return Sides{step, step, 200};  // with 8 cores it hides, also if it takes 1.5 times as long
  });
  EXPECT_LE(tried.size(), 6U) << "the controls and two small pools";
}

TEST(Candidates, OfTheBestSizeEachPlacementIsTried) {
  // Two L3 groups with the bandwidth of one core each.
  const auto homes = homes_on({.l3_per_node = 2, .cores_per_l3 = 2}, 1);
  const auto tried = search(homes, [](const Split& split) {
    const RankSplit& rank = split.ranks[0];
    const bool in_both =
        split.shape.shared || rank.pool_cores > 2 || split.shape.placement == Placement::spread;
    const double step = in_both ? 100 : 120;
    return Sides{step, 100, split.shape.shared || rank.unbound ? 200.0 : 220.0 / (4 - rank.pool_cores)};
  });
  EXPECT_EQ(best_of(tried).split.label, "pool 2, spread");
}

TEST(Candidates, TrainingCoresThatFreeAnL3GroupForThePoolAreTried) {
  const auto homes = homes_on({.l3_per_node = 2, .cores_per_l3 = 8}, 1);
  const auto tried = search(homes, [](const Split& split) {
    const RankSplit& rank = split.ranks[0];
    if (split.shape.shared || rank.unbound) return Sides{200, 95, 150};
    // With at most four training cores one group is the pool's alone. Three are too few to train.
    const bool spread = split.shape.placement == Placement::spread && rank.pool_cores == 8;
    const double step = !spread ? 200 : rank.reserved_cores <= 4 ? 100 : 120;
    return Sides{step, 95, rank.reserved_cores < 4 ? 104.0 : 90.0};
  });
  EXPECT_EQ(best_of(tried).split.label, "pool 8, spread, 4 reserved");
}

TEST(Candidates, WithASmallerPoolMoreCoresTrainInAsManyL3Groups) {
  const auto homes = homes_on({.l3_per_node = 4, .cores_per_l3 = 3}, 1);
  // Training cores hold up the pool in their L3 groups. One in a group is too few, and two leave one to it.
  const auto tried = search(homes, [&](const Split& split) {
    const RankSplit& rank = split.ranks[0];
    const bool spread = split.shape.placement == Placement::spread && !rank.shared && rank.pool_cores >= 4;
    const double step = spread ? 60 + 20 * mixed_l3_groups(homes, split) : 150 + 500.0 / rank.pool_cores;
    return Sides{step, 60, rank.reserved_cores == 1 ? 85.0 : 60.0};
  });
  EXPECT_EQ(best_of(tried).split.label, "pool 4, spread, 2 reserved");
}

TEST(Candidates, TheSafestIsLookedForInAllFamilies) {
  const auto homes = homes_on({.l3_per_node = 4, .cores_per_l3 = 4, .pus_per_core = 2}, 1);
  // The sides meet at 5 cores. Siblings take a fifth off the step, which the period does not show.
  const auto tried = search(homes, [](const Split& split) {
    const RankSplit& rank = split.ranks[0];
    const double gain = rank.pool.size() > static_cast<std::size_t>(rank.pool_cores) ? 1.25 : 1;
    const double step = 1000 / gain / rank.pool_cores;
    return Sides{step, step, split.shape.shared ? 400.0 : rank.pool_cores <= 5 ? 200.0 : 240.0};
  });
  EXPECT_TRUE(std::any_of(tried.begin(), tried.end(), [](const TriedSplit& one) {
    return !one.split.shape.shared && one.split.shape.pool_pus_per_core == 0 &&
           one.split.shape.pool_cores == 5;
  }));
}

TEST(Candidates, TheBestPoolOfAJobThatDiffersIsTriedToo) {
  // Both sides take equally long at 18, and at 22 if training is 1.5 times as fast or the step 1.5 times as
  // long.
  const auto tried = search(homes_on({.cores_per_l3 = 40}, 1), [](const Split& split) {
    const int pool = split.ranks[0].pool_cores;
    if (split.shape.shared || split.ranks[0].unbound) return Sides{200, 200, 200};
    return Sides{1600.0 / pool, 1600.0 / pool, 1964.0 / (40 - pool)};
  });
  EXPECT_EQ(best_of(tried).split.shape.pool_cores, 18);
  EXPECT_TRUE(std::any_of(tried.begin(), tried.end(), [](const TriedSplit& one) {
    return one.split.shape.control == Control::none && std::abs(one.split.shape.pool_cores - 22) <= 1;
  }));
}

TEST(Candidates, WhereTrainingWaitsOnlySharedHomesAreWorthALook) {
  const auto homes = homes_on({.cores_per_l3 = 64}, 1);
  const auto tried = search(homes,
                            [](const Split& split) {
                              const RankSplit& rank = split.ranks[0];
                              const double training = 3000.0 / (rank.shared ? 64 : rank.reserved_cores);
                              const double step = 1000.0 / std::min(rank.pool_cores, 12) +
                                                  rank.pool_cores;  // threads cost time
                              return Sides{step, step, training};
                            },
                            {Mode::wait, 1});
  EXPECT_TRUE(best_of(tried).split.shape.shared);
  EXPECT_LE(best_of(tried).split.shape.pool_cores, 32) << "half of the cores step faster than all";
  for (std::size_t i = 4; i < tried.size(); ++i)
    EXPECT_TRUE(tried[i].split.shape.shared) << tried[i].split.label;
}

TEST(Candidates, PoolsOnSomeCoresOfASharedHomeAreLeftOutForAFrameworkThatCannotBeToldThem) {
  const auto homes = homes_on({.cores_per_l3 = 16}, 1);
  const Schedule waits{Mode::wait, 1};
  std::vector<TriedSplit> tried;
  for (const Split& split : control_splits(homes)) tried.push_back({split, 100, 100, 100, 200});
  EXPECT_FALSE(promising_splits(homes, tried, waits, 0.02, 3, SharedPools::any).empty());
  for (const Split& split : promising_splits(homes, tried, waits, 0.02, 3, SharedPools::whole)) {
    EXPECT_FALSE(split.shape.shared) << split.label;
  }
}

TEST(Candidates, OnlyOurRuntimeCanBeToldAPartOfASharedHome) {
  EXPECT_EQ(shared_pools_of(Framework::native), SharedPools::any);
  EXPECT_EQ(shared_pools_of(Framework::unknown), SharedPools::any);
  for (const Framework framework : {Framework::torch, Framework::deepspeed_offload,
                                    Framework::deepspeed_zenflow, Framework::superoffload})
    EXPECT_EQ(shared_pools_of(framework), SharedPools::whole);
}

TEST(Candidates, NoHomeIsSharedForAFrameworkThatCannotShare) {
  for (const Split& split : control_splits(homes_on({.cores_per_l3 = 16}, 2), SharedPools::none)) {
    EXPECT_FALSE(split.shape.shared) << split.label;
  }
}

}  // namespace
}  // namespace zf
