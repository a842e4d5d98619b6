#include "homes/homes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "../topology/make_topology.hpp"
#include "base/error.hpp"
#include "random_machine.hpp"

namespace zf {
namespace {

std::vector<Preference> anywhere(std::size_t ranks) { return std::vector<Preference>(ranks); }

std::vector<std::string> cpus_of(const std::vector<Home>& homes) {
  std::vector<std::string> lists;
  for (const Home& home : homes) lists.push_back(print(home.cpus()));
  return lists;
}

std::set<int> nodes_of(const Home& home) {
  std::set<int> nodes;
  for (const HomeCore& core : home.cores) nodes.insert(core.node ? core.node->os_index : -1);
  return nodes;
}

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Homes, SlurmSparse32OfTwoRanks) {
  const Topology topology = slurm_sparse_machine();
  const auto homes = homes_of(topology, make_allowed(topology, kSlurmSparseMask), anywhere(2));
  EXPECT_THAT(cpus_of(homes), ElementsAre("0,4-11,21-26,30", "31-46"));
  EXPECT_EQ(homes[0].cores.size(), 16U);
  EXPECT_EQ(homes[1].cores.size(), 16U);
  EXPECT_EQ(print(homes[0].mems), "0-1");
  EXPECT_EQ(print(homes[1].mems), "1");
}

TEST(Homes, Slurm64And97To127OnInterleavedSiblings) {
  // Core k is {k, k+64}: 64 is the sibling of core 0, 97-127 are the siblings of cores 33 to 63.
  const Topology topology = make_topology(
      {.packages = 2, .cores_per_l3 = 32, .pus_per_core = 2, .numbering = Numbering::interleaved});
  const auto homes = homes_of(topology, make_allowed(topology, "64,97-127"), anywhere(2));
  EXPECT_THAT(cpus_of(homes), ElementsAre("64,97-111", "112-127"));
}

TEST(Homes, WholeMachineIsOneNodePerRank) {
  const Topology topology = make_topology(
      {.packages = 2, .cores_per_l3 = 4, .pus_per_core = 2, .numbering = Numbering::interleaved});
  EXPECT_THAT(cpus_of(homes_of(topology, make_allowed(topology), anywhere(2))),
              ElementsAre("0-3,8-11", "4-7,12-15"));
}

TEST(Homes, ThreeRanksOnTwoNodesLeaveNoCoreIdle) {
  const Topology topology = make_topology({.packages = 2, .cores_per_l3 = 12});
  EXPECT_THAT(cpus_of(homes_of(topology, make_allowed(topology), anywhere(3))),
              ElementsAre("0-7", "8-15", "16-23"));
}

TEST(Homes, MoreRanksThanNodesStayInsideNodes) {
  const Topology topology = make_topology({.packages = 2, .cores_per_l3 = 5});
  const auto homes = homes_of(topology, make_allowed(topology), anywhere(4));
  EXPECT_THAT(cpus_of(homes), ElementsAre("0-2", "3-4", "5-7", "8-9"));
}

TEST(Homes, ARankThatFitsOneNodeIsNotSpreadByItsNeighbours) {
  // 4, 16 and 12 cores for two ranks: one inside node 1, the other from what is left on both sides.
  const Topology topology = make_topology({.packages = 3, .cores_per_l3 = 16});
  EXPECT_THAT(cpus_of(homes_of(topology, make_allowed(topology, "0-3,16-31,32-43"), anywhere(2))),
              ElementsAre("16-31", "0-3,32-43"));
}

TEST(Homes, L3GroupsStayWholeWhereTheCountsAllow) {
  // Groups of 2, 4 and 2 allowed cores: two ranks of 4 get {4} and {2, 2}, not two halves of the middle
  // group.
  const Topology topology = make_topology({.l3_per_node = 3, .cores_per_l3 = 4});
  EXPECT_THAT(cpus_of(homes_of(topology, make_allowed(topology, "0-1,4-7,8-9"), anywhere(2))),
              ElementsAre("0-1,8-9", "4-7"));
}

TEST(Homes, FastAndSlowCoresAreDealtOutEvenly) {
  Topology topology = make_topology({.cores_per_l3 = 14});
  for (std::size_t core = 0; core < 6; ++core) topology.cores[core].kind = 1;
  EXPECT_THAT(cpus_of(homes_of(topology, make_allowed(topology), anywhere(2))),
              ElementsAre("0-2,6-9", "3-5,10-13"));
  EXPECT_THAT(cpus_of(homes_of(topology, make_allowed(topology), anywhere(4))),
              ElementsAre("0-1,6-7", "2-3,8-9", "4,10-11", "5,12-13"));
}

TEST(Homes, OneCoreIsShared) {
  const Topology topology = make_topology({.cores_per_l3 = 8, .pus_per_core = 2});
  const auto homes = homes_of(topology, make_allowed(topology, "2-3"), anywhere(1));
  EXPECT_THAT(cpus_of(homes), ElementsAre("2-3"));
  EXPECT_TRUE(homes[0].shared);
}

TEST(Homes, OnlyTheRankWithOneCoreIsShared) {
  const Topology topology = make_topology({.cores_per_l3 = 3});
  const auto homes = homes_of(topology, make_allowed(topology), anywhere(2));
  EXPECT_FALSE(homes[0].shared);
  EXPECT_TRUE(homes[1].shared);
}

TEST(Homes, MoreRanksThanCoresSaysHowManyFit) {
  const Topology topology = make_topology({.cores_per_l3 = 8, .pus_per_core = 2});
  try {
    homes_of(topology, make_allowed(topology, "0-5"), anywhere(4));
    FAIL() << "4 ranks were put on 3 cores";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::infeasible);
    EXPECT_THAT(error.what(), testing::StartsWith("4 ranks have 3 cores"));
    EXPECT_THAT(error.what(), HasSubstr("run 3 ranks at most"));
    EXPECT_THAT(error.what(), testing::Not(HasSubstr("--ranks"))) << "zf-tune exec has no such option";
  }
}

TEST(Homes, ClaimantsOfOneNodeShareItEvenly) {
  // Eight GPUs on every second node of an 8-node machine (an EPYC in NPS4): each rank gets half of its GPU's
  // node, the other half of a neighbour in the same package.
  const Topology topology = make_topology({.packages = 2, .nodes_per_package = 4, .cores_per_l3 = 16});
  std::vector<Preference> preferences;
  for (const int node : {3, 3, 1, 1, 7, 7, 5, 5}) preferences.push_back({Node{node}});
  const auto homes = homes_of(topology, make_allowed(topology), preferences);
  for (std::size_t rank = 0; rank < preferences.size(); ++rank) {
    const auto& cores = homes[rank].cores;
    ASSERT_EQ(cores.size(), 16U);
    EXPECT_EQ(std::count_if(cores.begin(), cores.end(),
                            [&](const HomeCore& c) { return c.node == preferences[rank].near; }),
              8);
    EXPECT_EQ(cores.front().node, preferences[rank].near) << "own node first";
    EXPECT_EQ(nodes_of(homes[rank]).size(), 2U);
    for (const int node : nodes_of(homes[rank]))
      EXPECT_EQ(node / 4, preferences[rank].near->os_index / 4) << "same package";
  }
}

TEST(Homes, ClaimantsOfOnePackageShareWhatItHasLeft) {
  // Two of a DGX's GPUs hang off one node of four: neither rank is sent to the other package alone.
  const Topology topology = make_topology({.packages = 2, .nodes_per_package = 4, .cores_per_l3 = 16});
  for (const Home& home : homes_of(topology, make_allowed(topology), {{Node{3}}, {Node{3}}})) {
    EXPECT_EQ(std::count_if(home.cores.begin(), home.cores.end(),
                            [](const HomeCore& core) { return core.node->os_index < 4; }),
              32);
  }
}

TEST(Homes, WhatTheOwnNodeLacksComesFromTheOwnPackage) {
  // Rank 0 lacks 4 cores: node 1 of its package has 5 left, node 2 of the other package exactly 4.
  const Topology topology = make_topology({.packages = 2, .nodes_per_package = 2, .cores_per_l3 = 5});
  const auto homes = homes_of(topology, make_allowed(topology, "0-1,5-9,10-13,15"), {{Node{0}}, {Node{3}}});
  EXPECT_THAT(cpus_of(homes), ElementsAre("0-1,5-8", "9-13,15"));
}

TEST(Homes, PreferencesAreMetWhateverTheRankOrder) {
  const Topology topology = make_topology({.packages = 2, .cores_per_l3 = 4, .node_id_step = 8});
  const auto homes = homes_of(topology, make_allowed(topology), {{Node{8}}, {Node{0}}});
  EXPECT_THAT(cpus_of(homes), ElementsAre("4-7", "0-3"));
}

TEST(Homes, APreferredNodeWithoutAllowedCoresMeansItsPackage) {
  const Topology topology = make_topology({.packages = 2, .nodes_per_package = 2, .cores_per_l3 = 4});
  const auto homes = homes_of(topology, make_allowed(topology, "0-3,8-11"), {{Node{3}}, {Node{1}}});
  EXPECT_THAT(cpus_of(homes), ElementsAre("8-11", "0-3"));
}

TEST(Homes, APreferenceForAnUnknownNodeIsIgnored) {
  const Topology topology = make_topology({.cores_per_l3 = 4});
  EXPECT_THAT(cpus_of(homes_of(topology, make_allowed(topology), {{Node{9}}, {}})),
              ElementsAre("0-1", "2-3"));
}

TEST(Homes, CpulessNodesAreNeitherHomesNorMemoryOfOne) {
  Topology topology = make_topology({.packages = 2, .cores_per_l3 = 2});
  topology.nodes.push_back({Node{2}, 16ULL << 30, {}, "HBM"});
  const auto homes = homes_of(topology, make_allowed(topology), anywhere(2));
  EXPECT_EQ(print(homes[0].mems), "0");
  EXPECT_EQ(print(homes[1].mems), "1");
}

TEST(Homes, CpulessNodesAreAMemoryTierWhereNothingElseIsAllowed) {
  Topology topology = make_topology({.packages = 2, .cores_per_l3 = 2});
  for (const int node : {0, 1}) {
    const CpuSet near = topology.nodes[static_cast<std::size_t>(node)].cpus;
    topology.nodes.push_back({Node{2 + node}, 16ULL << 30, {}, "HBM", near});
  }
  Allowed allowed = make_allowed(topology);
  allowed.mems = {Node{2}, Node{3}};
  const auto homes = homes_of(topology, allowed, anywhere(2));
  EXPECT_EQ(print(homes[0].mems), "2") << "the near one";
  EXPECT_EQ(print(homes[1].mems), "3");
}

TEST(Homes, PersistentMemoryIsUsedOnlyIfNothingElseIsAllowed) {
  Topology topology = make_topology({.cores_per_l3 = 2});
  const CpuSet near = topology.cpus;
  topology.nodes.push_back({Node{1}, 16ULL << 30, {}, "NVM", near});
  topology.nodes.push_back({Node{2}, 16ULL << 30, {}, "", near});
  topology.nodes.push_back({Node{3}, 16ULL << 30, {}, "NVM", near});
  Allowed allowed = make_allowed(topology);
  EXPECT_EQ(print(homes_of(topology, allowed, anywhere(1))[0].mems), "0");
  allowed.mems = {Node{1}, Node{2}, Node{3}};
  EXPECT_EQ(print(homes_of(topology, allowed, anywhere(1))[0].mems), "2") << "DRAM without CPUs";
  allowed.mems = {Node{1}, Node{3}};
  EXPECT_EQ(print(homes_of(topology, allowed, anywhere(1))[0].mems), "1,3") << "--mems 1,3";
  allowed.mems = {Node{0}, Node{1}};
  topology.nodes[0].memory_bytes = 0;
  EXPECT_EQ(print(homes_of(topology, allowed, anywhere(1))[0].mems), "1") << "the node has no other memory";
}

TEST(Homes, UnknownMemorySizesAreNotNoMemory) {
  Topology topology = make_topology({.packages = 2, .cores_per_l3 = 2});
  for (NumaNode& node : topology.nodes) node.memory_bytes = 0;  // as of "pack:2 [numa] core:2"
  const auto homes = homes_of(topology, make_allowed(topology), anywhere(2));
  EXPECT_EQ(print(homes[0].mems), "0");
  EXPECT_EQ(print(homes[1].mems), "1");
}

TEST(Homes, ANodeWithoutMemoryBorrowsTheAllowedOnes) {
  Topology topology = make_topology({.packages = 2, .cores_per_l3 = 2});
  topology.nodes[1].memory_bytes = 0;
  topology.nodes.push_back({Node{2}, 16ULL << 30, {}, "HBM"});
  const auto homes = homes_of(topology, make_allowed(topology), anywhere(2));
  EXPECT_EQ(print(homes[1].mems), "0");

  Allowed allowed = make_allowed(topology);
  allowed.mems = NodeSet{Node{2}};
  EXPECT_EQ(print(homes_of(topology, allowed, anywhere(2))[0].mems), "2");
}

TEST(Homes, ANodeWithoutMemoryBorrowsFromItsPackageAlone) {
  Topology topology = make_topology({.packages = 2, .nodes_per_package = 4, .cores_per_l3 = 2});
  topology.nodes[5].memory_bytes = 0;  // an EPYC in NPS4 with a channel that has no DIMM
  const auto homes = homes_of(topology, make_allowed(topology), anywhere(8));
  EXPECT_EQ(print(homes[4].mems), "4");
  EXPECT_EQ(print(homes[5].mems), "4,6-7");
}

std::size_t used_cores(const RandomCase& c) {
  return static_cast<std::size_t>(
      std::count_if(c.topology.cores.begin(), c.topology.cores.end(),
                    [&](const Core& core) { return core.cpus.intersects(c.allowed.cpus); }));
}

/// Checks what must hold for any machine, any allowed set, any number of ranks and any preferences.
void expect_partition(const RandomCase& c, const std::vector<Home>& homes) {
  ASSERT_EQ(homes.size(), c.preferences.size());
  CpuSet used;
  std::size_t sum = 0;
  std::size_t least = homes[0].cores.size();
  std::size_t most = least;
  for (const Home& home : homes) {
    EXPECT_FALSE(home.cores.empty());
    EXPECT_FALSE(home.mems.empty());
    EXPECT_TRUE(c.allowed.mems.contains(home.mems));
    EXPECT_EQ(home.shared, home.cores.size() < 2);
    EXPECT_FALSE(used.intersects(home.cpus())) << "disjoint";
    used |= home.cpus();
    sum += home.cpus().size();
    least = std::min(least, home.cores.size());
    most = std::max(most, home.cores.size());
    for (const HomeCore& part : home.cores) {
      const auto whole = std::find_if(c.topology.cores.begin(), c.topology.cores.end(),
                                      [&](const Core& core) { return core.cpus.intersects(part.cpus); });
      EXPECT_EQ(part.cpus, whole->cpus & c.allowed.cpus) << "whole cores";
    }
  }
  EXPECT_EQ(used, c.allowed.cpus) << "inside allowed, and nothing idle";
  EXPECT_EQ(sum, used.size());
  EXPECT_LE(most - least, 2U) << "balanced";
  EXPECT_GE(least + (used_cores(c) / homes.size() < 8 ? 0 : 1), used_cores(c) / homes.size());
}

TEST(Homes, ArePartitionsOfAnyMachine) {
  for (unsigned seed = 0; seed < 600 / ZF_FEWER; ++seed) {
    const RandomCase c = random_case(seed);
    SCOPED_TRACE(c.describe());
    const auto homes = homes_of(c.topology, c.allowed, c.preferences);
    expect_partition(c, homes);
    EXPECT_EQ(cpus_of(homes), cpus_of(homes_of(c.topology, c.allowed, c.preferences))) << "deterministic";
    if (HasFailure()) return;
  }
}

TEST(Homes, ARankWhoseNodeHasRoomLivesThere) {
  for (unsigned seed = 0; seed < 400 / ZF_FEWER; ++seed) {
    const RandomCase c = random_case(seed);
    SCOPED_TRACE(c.describe());
    std::map<int, int> cores;
    std::map<int, int> claimants;
    int total = 0;
    for (const Core& core : c.topology.cores) {
      if (!core.cpus.intersects(c.allowed.cpus)) continue;
      ++cores[core.node->os_index];
      ++total;
    }
    for (const Preference& preference : c.preferences) {
      if (preference.near) ++claimants[preference.near->os_index];
    }
    // A rank that prefers a node without usable cores competes for other nodes; another test covers it.
    if (std::any_of(claimants.begin(), claimants.end(), [&](const auto& w) { return cores[w.first] == 0; }))
      continue;
    const auto homes = homes_of(c.topology, c.allowed, c.preferences);
    for (std::size_t rank = 0; rank < homes.size(); ++rank) {
      if (!c.preferences[rank].near) continue;
      const int node = c.preferences[rank].near->os_index;
      const int fair = std::min(cores[node] / claimants[node], total / static_cast<int>(homes.size()));
      const auto near = std::count_if(homes[rank].cores.begin(), homes[rank].cores.end(),
                                      [&](const HomeCore& core) { return core.node->os_index == node; });
      ASSERT_GE(near, fair);
    }
  }
}

TEST(Homes, TheRandomMachinesAreWorthTheName) {
  int shared = 0;
  int spanning = 0;
  int preferring = 0;
  int cut_cores = 0;
  for (unsigned seed = 0; seed < 400 / ZF_FEWER; ++seed) {
    const RandomCase c = random_case(seed);
    for (const Home& home : homes_of(c.topology, c.allowed, c.preferences)) {
      shared += home.shared;
      spanning += nodes_of(home).size() > 1;
    }
    for (const Preference& preference : c.preferences) preferring += preference.near.has_value();
    for (const Core& core : c.topology.cores) {
      cut_cores += core.cpus.intersects(c.allowed.cpus) && !c.allowed.cpus.contains(core.cpus);
    }
  }
  for (const int count : {shared, spanning, preferring, cut_cores}) EXPECT_GT(count, 100 / ZF_FEWER);
}

}  // namespace
}  // namespace zf
