#include "homes/deepspeed_homes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "plan/workload.hpp"
#include "random_machine.hpp"

namespace zf {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr unsigned kCases = 400 / ZF_FEWER;

std::vector<std::string> homes_on(const Topology& topology, int ranks, std::string_view allowed = "") {
  std::vector<std::string> lists;
  for (const Home& home : deepspeed_homes(topology, make_allowed(topology, allowed), ranks)) {
    lists.push_back(print(home.cpus()));
  }
  return lists;
}

/// Checks every pool size and placement, one PU per core and all, with and without idle cores.
void expect_every_cut_can_be_told(const std::vector<Home>& homes, const Topology& topology) {
  for (int pool = 1; pool <= static_cast<int>(homes.front().cores.size()); ++pool) {
    for (const int pus_per_core : {1, 0}) {
      for (const Placement placement : {Placement::compact, Placement::spread}) {
        for (const int reserved : {0, 1}) {
          const Split split = split_of(homes, {pool, pus_per_core, placement, reserved, 0, Control::none});
          EXPECT_EQ(deepspeed_objection(split, topology), "") << split.label;
        }
      }
    }
  }
}

TEST(DeepSpeedHomes, EveryCutOfThemCanBeTold) {
  int answered = 0;
  for (unsigned seed = 0; seed < kCases; ++seed) {
    const RandomCase c = random_case(seed);
    SCOPED_TRACE(c.describe());
    const auto ranks = static_cast<int>(c.preferences.size());
    std::vector<Home> homes;
    try {
      homes = deepspeed_homes(c.topology, c.allowed, ranks);
    } catch (const Error& error) {
      // homes_of() always has an answer in these cases; DeepSpeed drops high numbers of a single rank.
      EXPECT_EQ(ranks, 1);
      EXPECT_GE(c.allowed.cpus.first().os_index, static_cast<int>(c.topology.cores.size()));
      continue;
    }
    ++answered;
    ASSERT_EQ(homes.size(), c.preferences.size());
    CpuSet taken;
    for (const Home& home : homes) {
      EXPECT_FALSE(home.cpus().intersects(taken));
      EXPECT_EQ(home.cores.size(), homes.front().cores.size());
      EXPECT_EQ(home.shared, home.cores.size() < 2);
      EXPECT_FALSE(home.mems.empty());
      taken |= home.cpus();
    }
    EXPECT_TRUE(c.allowed.cpus.contains(taken));
    expect_every_cut_can_be_told(homes, c.topology);
  }
  EXPECT_GT(answered, static_cast<int>(kCases * 9 / 10));
}

TEST(DeepSpeedHomes, AdjacentSiblingsStayTogetherAndOthersAreLeftOut) {
  const MachineShape shape{.packages = 2, .cores_per_l3 = 4, .pus_per_core = 2};
  EXPECT_EQ(homes_on(make_topology(shape), 2), (std::vector<std::string>{"0-7", "8-15"}));
  MachineShape interleaved = shape;
  interleaved.numbering = Numbering::interleaved;
  EXPECT_EQ(homes_on(make_topology(interleaved), 2), (std::vector<std::string>{"0-3", "4-7"}));
}

TEST(DeepSpeedHomes, SuperOffloadSharesNone) {
  const Topology topology = make_topology({.packages = 2, .cores_per_l3 = 4});
  const Allowed allowed = make_allowed(topology, "");
  const Split shared = split_of(deepspeed_homes(topology, allowed, 2), control_shape(Control::shared));
  EXPECT_EQ(deepspeed_objection(shared, topology, Framework::deepspeed_zenflow), "");
  EXPECT_THAT(deepspeed_objection(shared, topology, Framework::superoffload),
              HasSubstr("share CPUs 0-3: SuperOffload always divides them"));
  EXPECT_EQ(deepspeed_homes(topology, allowed, 4, Framework::superoffload).size(), 4U);
  EXPECT_THROW(deepspeed_homes(topology, allowed, 5, Framework::superoffload), Error);
}

TEST(DeepSpeedHomes, LeftOverCoresAreThoseBetweenNodes) {
  const Topology topology = make_topology({.packages = 2, .cores_per_l3 = 8});
  EXPECT_EQ(homes_on(topology, 2, "0-4,8-11"), (std::vector<std::string>{"0-3", "8-11"}));
  EXPECT_EQ(homes_on(topology, 2, "0-4,8-10"), (std::vector<std::string>{"0-3", "4,8-10"}));
}

TEST(DeepSpeedHomes, UnequalSiblingsOfSeveralRanksAreLeftOut) {
  const Topology topology = make_topology({.cores_per_l3 = 4, .pus_per_core = 2});
  EXPECT_EQ(homes_on(topology, 2, "0-4,6"), (std::vector<std::string>{"0,2", "4,6"}));
}

TEST(DeepSpeedHomes, ASingleRankHasNoNumberFromTheCountOfCoresOn) {
  const Topology topology = make_topology({.cores_per_l3 = 4, .pus_per_core = 2});
  EXPECT_EQ(homes_on(topology, 1), (std::vector<std::string>{"0-3"}));
  EXPECT_THROW(homes_on(topology, 1, "4-7"), Error);
}

std::vector<std::string> unfairness(const Topology& topology, int ranks, int pool) {
  const auto homes = deepspeed_homes(topology, make_allowed(topology, ""), ranks);
  return unfair_fast_cores(split_of(homes, {.pool_cores = pool}), topology, topology.cpus);
}

TEST(DeepSpeedHomes, AnUnfairCutOfFastCoresIsNamed) {
  const Topology fast_first = one_l3_group({1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0});
  EXPECT_THAT(unfairness(fast_first, 3, 2),
              ElementsAre(EndsWith("of the fast cores the ranks have 4, 2, 0, where each could have 2")));
  EXPECT_THAT(unfairness(fast_first, 1, 6), IsEmpty());
  EXPECT_THAT(unfairness(one_l3_group({1, 1, 0, 0, 1, 1, 0, 0}), 2, 2), IsEmpty())
      << "even, and training is fast";
  EXPECT_THAT(unfairness(make_topology({.cores_per_l3 = 8}), 2, 2), IsEmpty()) << "all are alike";
}

TEST(DeepSpeedHomes, TrainingOnSlowCoresIsNamed) {
  const Topology slow_first = one_l3_group({0, 0, 1, 1, 0, 0, 1, 1});
  EXPECT_THAT(unfairness(slow_first, 2, 2),
              ElementsAre(HasSubstr(
                  "ranks 0,1 train on 2 slow cores each, and the optimizer of each has fast ones")));
  EXPECT_THAT(unfairness(one_l3_group({0, 0, 1, 1}), 1, 2),
              ElementsAre(HasSubstr("rank 0 trains on 2 slow cores, and its optimizer has fast ones")));
  EXPECT_THAT(unfairness(one_l3_group({1, 1, 1, 0, 1, 1}), 1, 2),
              ElementsAre(HasSubstr("rank 0 trains on 3 fast and 1 slow core, and its optimizer")));
}

TEST(DeepSpeedHomes, ACutAlongL3GroupsIsNoCutBetweenSlowAndFastCores) {
  Topology topology = make_topology({.l3_per_node = 2, .cores_per_l3 = 8});
  topology.cpu_kinds.resize(2);
  topology.cpu_kinds[1].divides_make = true;  // the second group is fast today
  for (std::size_t core = 0; core < topology.cores.size(); ++core) {
    topology.cores[core].kind = core < 8 ? 0 : 1;
    topology.cpu_kinds[core < 8 ? 0 : 1].cpus |= topology.cores[core].cpus;
  }
  EXPECT_THAT(unfairness(topology, 1, 8), IsEmpty()) << "a group trains, the other runs the optimizer";
  EXPECT_THAT(unfairness(topology, 2, 4), IsEmpty()) << "each rank has a group";
  EXPECT_THAT(unfairness(topology, 1, 12), ElementsAre(HasSubstr("rank 0 trains on 4 slow cores")))
      << "that divides a group";
  topology.cpu_kinds[1].divides_make = false;
  EXPECT_THAT(unfairness(topology, 1, 8), ElementsAre(HasSubstr("rank 0 trains on 8 slow cores")))
      << "two makes";
}

TEST(DeepSpeedHomes, WhatIsLeftUnusedIsSaid) {
  const Topology topology = make_topology({.packages = 2, .cores_per_l3 = 8});
  const auto words = [&](std::string_view list) {
    const Allowed allowed = make_allowed(topology, list);
    return restriction_in_words(deepspeed_homes(topology, allowed, 2), allowed);
  };
  EXPECT_EQ(words(""), "every allowed CPU is in a home");
  EXPECT_EQ(words("0-4,8-11"), "CPU 4 is in no home");
  EXPECT_THAT(words("0-4,8-10"), HasSubstr("1 of 2 ranks spans several NUMA nodes"));
}

}  // namespace
}  // namespace zf
