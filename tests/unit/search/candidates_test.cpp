#include "search/candidates.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "../machine/make_topology.hpp"
#include "homes/homes.hpp"

namespace zf {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

std::vector<Home> homes_on(const MachineShape& shape, std::size_t ranks) {
  const Topology topology = make_topology(shape);
  return homes_of(topology, make_allowed(topology), std::vector<Preference>(ranks));
}

std::vector<std::string> labels_of(const std::vector<Split>& splits) {
  std::vector<std::string> labels;
  for (const Split& split : splits) labels.push_back(split.label);
  return labels;
}

/// Models a machine: returns the times of both sides of a split.
using Model = std::function<TriedSplit(const Split&)>;

/// Tries all proposed splits until none is proposed any more, and returns them.
std::vector<TriedSplit> search(const std::vector<Home>& homes, const Model& model) {
  std::vector<TriedSplit> tried;
  for (const Split& split : control_splits(homes)) tried.push_back(model(split));
  for (const Split& split : growing_splits(homes)) tried.push_back(model(split));
  for (auto more = promising_splits(homes, tried, 0.02); !more.empty();
       more = promising_splits(homes, tried, 0.02)) {
    for (const Split& split : more) tried.push_back(model(split));
    EXPECT_LE(tried.size(), 60U);
  }
  return tried;
}

const TriedSplit& best_of(const std::vector<TriedSplit>& tried) {
  return *std::min_element(tried.begin(), tried.end(),
                           [](const auto& a, const auto& b) { return a.period_ns() < b.period_ns(); });
}

TEST(Candidates, GrowGeometricallyUpToAllButOneCore) {
  EXPECT_THAT(labels_of(growing_splits(homes_on({.cores_per_l3 = 32}, 1))),
              ElementsAre("pool 1, compact", "pool 2, compact", "pool 3, compact", "pool 4, compact",
                          "pool 6, compact", "pool 8, compact", "pool 12, compact", "pool 24, compact",
                          "pool 31, compact"))
      << "16 is half and half";
  EXPECT_THAT(growing_splits(homes_on({.cores_per_l3 = 2}, 1)), IsEmpty())
      << "half and half is the only split";
  EXPECT_THAT(labels_of(growing_splits(homes_on({.cores_per_l3 = 1}, 1))), ElementsAre("pool 1, compact"));
}

TEST(Candidates, TheControlsAreThereUnlessTheyAreTheSame) {
  EXPECT_THAT(labels_of(control_splits(homes_on({.cores_per_l3 = 16}, 2))),
              ElementsAre("half and half", "two reserved", "unbound"));
  EXPECT_THAT(labels_of(control_splits(homes_on({.cores_per_l3 = 4}, 1))),
              ElementsAre("half and half", "unbound"));
  EXPECT_THAT(control_splits(homes_on({.cores_per_l3 = 1}, 1)), IsEmpty());
}

TEST(Candidates, FindWhereTheTwoSidesMeetBetweenTwoSizes) {
  const auto homes = homes_on({.cores_per_l3 = 96}, 1);
  const auto tried = search(homes, [](const Split& split) {
    const int pool = split.ranks[0].pool_cores;
    return TriedSplit{split, 2800.0 / pool, 2800.0 / pool,
                      60.0 + pool};  // both sides take equally long at 31
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
    return TriedSplit{split, step, step, 50.0 + rank.pool_cores};
  });
  EXPECT_EQ(best_of(tried).split.shape.placement, Placement::spread);
  const auto idle = search(homes, [](const Split& split) { return TriedSplit{split, 1, 1, 100}; });
  for (const TriedSplit& one : idle)
    EXPECT_EQ(one.split.shape.placement, Placement::compact) << "nothing to gain";
}

TEST(Candidates, CoresAreLeftIdleWhereTheyOnlyTakeBandwidth) {
  const auto homes = homes_on({.cores_per_l3 = 32}, 1);
  const auto tried = search(homes, [](const Split& split) {
    const RankSplit& rank = split.ranks[0];
    const double alone = 40.0 + rank.pool_cores;  // saturated: more threads only synchronize more
    return TriedSplit{split, alone + 3.0 * rank.reserved_cores, alone, 30.0 + 100.0 / rank.reserved_cores};
  });
  EXPECT_GT(best_of(tried).split.ranks[0].idle_cores, 0);
  EXPECT_LT(best_of(tried).period_ns(), 0.9 * 78) << "the best without idle cores";
}

TEST(Candidates, KindsAreTriedApart) {
  Topology topology = make_topology({.cores_per_l3 = 8});
  for (std::size_t core = 0; core < 4; ++core) topology.cores[core].kind = 1;
  const auto homes = homes_of(topology, make_allowed(topology), std::vector<Preference>(1));
  const auto tried = search(homes, [](const Split& split) {
    double slowest = 2;
    for (const Pu pu : split.ranks[0].pool) slowest = std::min(slowest, pu.os_index < 4 ? 2.0 : 1.0);
    const double step = 100 / slowest / static_cast<double>(split.ranks[0].pool.size());
    return TriedSplit{split, step, step, 1};
  });
  EXPECT_THAT(labels_of([&] {
                std::vector<Split> splits;
                for (const TriedSplit& one : tried) splits.push_back(one.split);
                return splits;
              }()),
              Contains("pool 4, compact, kind 1"));
}

TEST(Candidates, TheSmallestPoolThatTiesIsLookedFor) {
  const auto homes = homes_on({.cores_per_l3 = 64}, 1);
  const auto tried = search(homes, [](const Split& split) {
    const double step = 1000.0 / std::min(split.ranks[0].pool_cores, 19);
    return TriedSplit{split, step, step, 0};
  });
  EXPECT_TRUE(std::any_of(tried.begin(), tried.end(),
                          [](const TriedSplit& one) { return one.split.shape.pool_cores == 19; }));
}

}  // namespace
}  // namespace zf
