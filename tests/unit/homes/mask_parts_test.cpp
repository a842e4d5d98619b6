#include "homes/mask_parts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "../topology/make_topology.hpp"
#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "gpus/rank_gpus.hpp"
#include "homes/rank_homes.hpp"
#include "random_machine.hpp"

namespace zf {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<CpuSet> masks_of(const std::vector<const char*>& lists) {
  std::vector<CpuSet> masks;
  for (const char* list : lists) masks.push_back(parse_cpu_list(list, "test"));
  return masks;
}

/// Returns a node with everything allowed and GPUs on these nodes.
Machine node_with(const MachineShape& shape, const std::vector<int>& gpu_nodes = {}) {
  Machine machine;
  machine.topology = make_topology(shape);
  for (const int index : gpu_nodes) {
    const NumaNode& node = machine.topology.nodes.at(static_cast<std::size_t>(index));
    machine.topology.gpus.push_back(
        {std::to_string(machine.topology.gpus.size()), "a GPU", node.cpus, node.id});
  }
  machine.allowed = make_allowed(machine.topology);
  return machine;
}

std::vector<std::string> homes_in(const Machine& machine, const std::vector<CpuSet>& masks) {
  std::vector<std::string> lists;
  const RankGpus gpus = rank_gpus({}, machine.topology, static_cast<int>(masks.size()));
  for (const Home& home : rank_homes_within(machine, gpus, masks).homes) lists.push_back(print(home.cpus()));
  return lists;
}

/// Two packages of 8 cores, CPUs 0-7 and 8-15.
Machine two_sockets(const std::vector<int>& gpu_nodes = {}) {
  return node_with({.packages = 2, .cores_per_l3 = 8}, gpu_nodes);
}

TEST(MaskParts, RanksWithOneMaskDivideItAmongThemselves) {
  EXPECT_THAT(homes_in(two_sockets(), masks_of({"0-7", "8-15", "0-7", "8-15"})),
              ElementsAre("0-3", "8-11", "4-7", "12-15"));
  EXPECT_THAT(homes_in(two_sockets(), masks_of({"0-7", "8-15", "0-7"})), ElementsAre("0-3", "8-15", "4-7"));
  EXPECT_THAT(homes_in(two_sockets(), masks_of({"0-15", "0-15"})), ElementsAre("0-7", "8-15"));
}

TEST(MaskParts, MasksThatDoNotOverlapAreTheHomes) {
  EXPECT_THAT(homes_in(two_sockets(), masks_of({"8-9", "0-3,15"})), ElementsAre("8-9", "0-3,15"));
  const Machine smt = node_with({.packages = 1, .cores_per_l3 = 4, .pus_per_core = 2});
  EXPECT_THAT(homes_in(smt, masks_of({"0,2,4", "1,3,5-7"})), ElementsAre("0,2,4", "1,3,5-7"))
      << "each has one thread of three cores";
}

TEST(MaskParts, DifferentMasksThatOverlapAreDividedEvenly) {
  EXPECT_THAT(homes_in(two_sockets(), masks_of({"0-3", "0-15"})), ElementsAre("0-3", "4-15"));
  EXPECT_THAT(homes_in(two_sockets(), masks_of({"0-15", "0-3"})), ElementsAre("4-15", "0-3"));
  EXPECT_THAT(homes_in(two_sockets(), masks_of({"0-11", "4-15"})), ElementsAre("0-7", "8-15"));
  EXPECT_THAT(homes_in(two_sockets(), masks_of({"0-15", "0-15", "0-1"})), ElementsAre("2-8", "9-15", "0-1"));
  EXPECT_THAT(homes_in(two_sockets(), masks_of({"0-1", "0-3", "2-15"})), ElementsAre("0-1", "2-3", "4-15"));
}

TEST(MaskParts, OneMaskMayHoldAnotherAndOverlapAThird) {
  EXPECT_THAT(homes_in(two_sockets(), masks_of({"0-3", "0-15", "8-15"})), ElementsAre("0-3", "4-9", "10-15"));
  EXPECT_THAT(homes_in(two_sockets(), masks_of({"0-5", "3-10", "8-15"})), ElementsAre("0-4", "5-9", "10-15"));
  const Machine smt = node_with({.packages = 1, .cores_per_l3 = 6, .pus_per_core = 2});
  EXPECT_THAT(homes_in(smt, masks_of({"0-4", "3-8", "0-11"})), ElementsAre("0-3", "4-7", "8-11"))
      << "no sibling is parted from the other where a core of its own is left";
}

TEST(MaskParts, CoresNearARanksGpuAreItsOwnWhereBothMayHaveThem) {
  EXPECT_THAT(homes_in(two_sockets({1, 0}), masks_of({"0-15", "0-14"})), ElementsAre("8-15", "0-7"));
  EXPECT_THAT(homes_in(two_sockets({1, 0}), masks_of({"0-14", "0-15"})), ElementsAre("0,8-14", "1-7,15"))
      << "CPU 15 is in one mask only, and both have eight cores";
}

TEST(MaskParts, ACoreIsDividedOnlyIfARankHadNoneOtherwise) {
  const Machine smt = node_with({.packages = 1, .cores_per_l3 = 4, .pus_per_core = 2});
  EXPECT_THAT(homes_in(smt, masks_of({"0-3", "2,4-7"})), ElementsAre("0-3", "4-7")) << "not CPU 2 alone";
  EXPECT_THAT(homes_in(smt, masks_of({"0-3", "2"})), ElementsAre("0-1,3", "2"));
}

TEST(MaskParts, FewerCoresThanRanksAreRefusedWithTheirNames) {
  const Machine node = two_sockets();
  try {
    homes_in(node, masks_of({"0-1", "0-15", "0-1", "0-1"}));
    FAIL() << "three ranks have two cores";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::infeasible);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("ranks 0,2,3 have 2 cores in their masks (CPUs 0-1)"),
                                    HasSubstr("each rank needs one of its own")));
  }
}

/// Returns the smallest number of cores per rank that any division could have: by Hall's theorem, the fewest
/// cores that some ranks have in their masks together, divided among these ranks.
std::size_t most_of_the_least(const Topology& topology, const std::vector<CpuSet>& masks) {
  std::size_t least = topology.cores.size();
  for (unsigned some = 1; some < 1U << masks.size(); ++some) {
    CpuSet cpus;
    std::size_t ranks = 0;
    for (std::size_t rank = 0; rank < masks.size(); ++rank) {
      if ((some >> rank & 1U) == 0) continue;
      cpus |= masks[rank];
      ++ranks;
    }
    least = std::min(least, cpus.size() / ranks);
  }
  return least;
}

bool all_differ(const std::vector<CpuSet>& masks) {
  for (std::size_t rank = 1; rank < masks.size(); ++rank) {
    if (std::find(masks.begin(), masks.begin() + static_cast<std::ptrdiff_t>(rank), masks[rank]) !=
        masks.begin() + static_cast<std::ptrdiff_t>(rank))
      return false;
  }
  return true;
}

TEST(MaskParts, WhateverTheMasksHomesLieInThemAreDisjointAndAsEvenAsCanBe) {
  int refused = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    Dice dice(seed);
    const Machine node = two_sockets({0, 1, 1, 0});
    std::vector<CpuSet> masks;
    for (int rank = dice(2, 5); rank > 0; --rank) {
      const bool again = !masks.empty() && dice(0, 2) == 0;
      masks.push_back(again ? masks.back() : random_cpus(node.topology.cpus, dice));
    }
    CpuSet any;
    for (const CpuSet& mask : masks) any |= mask;
    const std::size_t least = most_of_the_least(node.topology, masks);
    const RankGpus gpus = rank_gpus({}, node.topology, static_cast<int>(masks.size()));
    try {
      const RankHomes ranks = rank_homes_within(node, gpus, masks);
      CpuSet taken;
      std::size_t smallest = any.size();
      for (std::size_t rank = 0; rank < masks.size(); ++rank) {
        const CpuSet cpus = ranks.homes[rank].cpus();
        EXPECT_TRUE(masks[rank].contains(cpus)) << seed;
        EXPECT_FALSE(taken.intersects(cpus)) << seed;
        taken |= cpus;
        smallest = std::min(smallest, cpus.size());
      }
      EXPECT_EQ(taken, any) << seed << ": a core is in no home";
      // Ranks with one mask may differ by two where that saves one of them a package.
      EXPECT_GE(smallest + 1, least) << seed;
      if (all_differ(masks)) {
        EXPECT_EQ(smallest, least) << seed;
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.exit(), Exit::infeasible);
      EXPECT_EQ(least, 0U) << seed << ": " << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace zf
