// The homes that an expert would sign, for machines with an unusual layout. Each list of CPUs was
// written down by hand, with the reason; no code made it. Each machine is also mirrored and renumbered.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../topology/machines.hpp"
#include "../topology/make_topology.hpp"
#include "homes/rank_homes.hpp"
#include "other_numbering.hpp"

namespace zf {
namespace {

using testing::ElementsAre;

struct ExpertCase {
  Topology topology;
  int ranks = 1;
  std::string allowed = {};  ///< "": everything
};

std::vector<CpuSet> homes_in(const Topology& topology, const CpuSet& allowed, int ranks) {
  Machine machine{topology, make_allowed(topology)};
  machine.allowed.cpus = allowed;
  std::vector<CpuSet> homes;
  for (const Home& home : rank_homes(machine, rank_gpus({}, topology, ranks)).homes)
    homes.push_back(home.cpus());
  return homes;
}

/// Returns the homes as lists.
std::vector<std::string> homes_of(const ExpertCase& c) {
  std::vector<std::string> lists;
  const CpuSet allowed = c.allowed.empty() ? c.topology.cpus : parse_cpu_list(c.allowed, "test");
  for (const CpuSet& home : homes_in(c.topology, allowed, c.ranks)) lists.push_back(print(home));
  return lists;
}

/// Checks the case with other CPU numbers and mirrored.
void expect_in_other_numberings(const ExpertCase& c) {
  Machine machine{c.topology, make_allowed(c.topology)};
  if (!c.allowed.empty()) machine.allowed.cpus = parse_cpu_list(c.allowed, "test");
  expect_homes_in_other_numberings(machine, c.ranks);
}

/// Returns the machine with the order of its packages, nodes, L3 groups and cores reversed, and the homes
/// there in the numbers of the machine itself.
std::vector<std::string> mirrored_homes_of(const ExpertCase& c) {
  const CpuSet allowed = c.allowed.empty() ? c.topology.cpus : parse_cpu_list(c.allowed, "test");
  std::vector<std::string> lists;
  for (const CpuSet& home : homes_in(mirrored(c.topology), allowed, c.ranks)) lists.push_back(print(home));
  return lists;
}

// --- A GPU near a part of a NUMA node ----------------------------------------------------------------------

/// Returns a node as those of Frontier, LUMI and Tioga: 4 NUMA nodes of 2 L3 groups of 8 cores, and 8 GPUs
/// near one L3 group each. The order of the GPUs crosses that of the L3 groups.
Topology mi250x_node(const std::vector<int>& l3_of_gpu = {6, 7, 2, 3, 0, 1, 4, 5}) {
  Topology topology = make_topology({.packages = 1,
                                     .nodes_per_package = 4,
                                     .l3_per_node = 2,
                                     .cores_per_l3 = 8,
                                     .pus_per_core = 2,
                                     .numbering = Numbering::interleaved});
  for (const int group : l3_of_gpu) {
    topology.gpus.push_back({std::to_string(topology.gpus.size()), "MI250X",
                             topology.l3_groups[static_cast<std::size_t>(group)].cpus, Node{group / 2}});
  }
  return topology;
}

const char* const kOfL3[] = {"0-7,64-71",    "8-15,72-79",    "16-23,80-87",   "24-31,88-95",
                             "32-39,96-103", "40-47,104-111", "48-55,112-119", "56-63,120-127"};

TEST(ExpertHomes, Mi250xEachRankHasTheL3GroupOfItsGpu) {
  const ExpertCase c{mi250x_node(), 8};
  const auto expected =
      ElementsAre(kOfL3[6], kOfL3[7], kOfL3[2], kOfL3[3], kOfL3[0], kOfL3[1], kOfL3[4], kOfL3[5]);
  EXPECT_THAT(homes_of(c), expected);
  EXPECT_THAT(mirrored_homes_of(c), expected);
  expect_in_other_numberings(c);
}

TEST(ExpertHomes, Mi250xWithTwoGpusCrossedInsideANode) {
  const ExpertCase c{mi250x_node({7, 6, 2, 3, 1, 0, 4, 5}), 8};
  const auto expected =
      ElementsAre(kOfL3[7], kOfL3[6], kOfL3[2], kOfL3[3], kOfL3[1], kOfL3[0], kOfL3[4], kOfL3[5]);
  EXPECT_THAT(homes_of(c), expected);
  EXPECT_THAT(mirrored_homes_of(c), expected);
  expect_in_other_numberings(c);
}

TEST(ExpertHomes, Mi250xWithoutCpu0NobodyChangesPlaces) {
  const ExpertCase c{mi250x_node(), 8, "1-63,65-127"};
  const auto expected =
      ElementsAre(kOfL3[6], kOfL3[7], kOfL3[2], kOfL3[3], "1-7,65-71", kOfL3[1], kOfL3[4], kOfL3[5]);
  EXPECT_THAT(homes_of(c), expected);
  EXPECT_THAT(mirrored_homes_of(c), expected);
  expect_in_other_numberings(c);
}

TEST(ExpertHomes, Mi250xWithACoreOfEachNodeReservedNobodyGetsACoreOfTheNeighboursL3Group) {
  const ExpertCase c{mi250x_node(), 8, "1-15,17-31,33-47,49-63"};
  const auto expected = ElementsAre("49-55", "56-63", "17-23", "24-31", "1-7", "8-15", "33-39", "40-47");
  EXPECT_THAT(homes_of(c), expected);
  EXPECT_THAT(mirrored_homes_of(c), expected);
  expect_in_other_numberings(c);
}

/// Checks that each rank has all CPUs near its GPU: there is room for that, so nothing else will do.
void expect_own_l3_groups(const ExpertCase& c) {
  for (const Topology& topology : {c.topology, mirrored(c.topology)}) {
    const auto homes = homes_in(topology, topology.cpus, c.ranks);
    for (std::size_t rank = 0; rank < homes.size(); ++rank)
      EXPECT_TRUE(homes[rank].contains(topology.gpus[rank].local_cpus))
          << "rank " << rank << " of " << c.ranks;
  }
  expect_in_other_numberings(c);
}

TEST(ExpertHomes, Mi250xWithFewRanksEachStillHasTheL3GroupOfItsGpu) {
  for (const int ranks : {1, 2, 3, 4, 5, 6, 7}) expect_own_l3_groups({mi250x_node(), ranks});
}

TEST(ExpertHomes, Mi250xTwoRanksTouchThreeNodesEachAndNoMore) {
  expect_in_other_numberings({mi250x_node(), 2});
  // Node 3 has both GPUs. Each rank has one half of that node, and 24 more cores in whole L3 groups.
  for (const CpuSet& home : homes_in(mi250x_node(), mi250x_node().cpus, 2)) {
    int nodes = 0;
    for (const NumaNode& node : mi250x_node().nodes) nodes += home.intersects(node.cpus);
    EXPECT_EQ(nodes, 3);
    EXPECT_EQ(home.size(), 64U);
    for (const L3Group& group : mi250x_node().l3_groups)
      EXPECT_TRUE(home.contains(group.cpus) || !home.intersects(group.cpus));
  }
}

TEST(ExpertHomes, Mi250xARankWhoseL3GroupIsNotAllowedStaysInTheNode) {
  // GPU 0 is near 48-55. Its rank takes half of what the node has left.
  const ExpertCase c{mi250x_node(), 2, "0-7,56-63"};
  EXPECT_THAT(homes_of(c), ElementsAre("0-3,56-59", "4-7,60-63"));
  expect_in_other_numberings(c);
}

TEST(ExpertHomes, Mi250xOneCoreMoreInThePackageIsNotNearer) {
  // No CPU near the GPUs of ranks 0 and 1 is allowed, and no core of their node: any core of the package is
  // as good for them. 7 cores for 3 ranks: rank 2 has 83-84 near its GPU and takes the third core of that
  // node.
  const ExpertCase c{mi250x_node(), 3, "6,65-67,83-84,90"};
  EXPECT_THAT(homes_of(c), ElementsAre("65-66", "6,67", "83-84,90"));
  expect_in_other_numberings(c);
}

TEST(ExpertHomes, Mi250xTheRankWhoseGpuIsThereIsNotTheOneThatGetsLess) {
  // 7 cores for 4 ranks. All are near the GPU of rank 3; the others have nothing but the package.
  const ExpertCase c{mi250x_node({7, 6, 3, 2, 1, 0, 5, 4}), 4, "16-22"};
  EXPECT_EQ(parse_cpu_list(homes_of(c)[3], "test").size(), 2U);
  expect_in_other_numberings(c);
}

// --- Several packages inside one NUMA node -----------------------------------------------------------------

/// Returns two packages of 8 L3 groups of 8 cores that are one NUMA node (node interleaving, NPS0).
Topology two_packages_one_node() {
  Topology topology = make_topology({.packages = 2, .l3_per_node = 8, .cores_per_l3 = 8});
  topology.nodes.resize(1);
  topology.nodes[0].cpus = topology.cpus;
  topology.allowed_nodes = node_ids(topology);
  for (Core& core : topology.cores) core.node = topology.nodes[0].id;
  return topology;
}

TEST(ExpertHomes, OneNodeOfTwoPackagesARankDoesNotCrossPackages) {
  const ExpertCase c{two_packages_one_node(), 2, "1-127"};
  EXPECT_THAT(homes_of(c), ElementsAre("1-63", "64-127"));
  expect_in_other_numberings(c);
  // Ranks without GPUs are numbered in topological order.
  EXPECT_THAT(mirrored_homes_of(c), ElementsAre("64-127", "1-63"));
}

TEST(ExpertHomes, OneNodeOfTwoPackagesOnlyOneOfThreeRanksHasCoresOfBoth) {
  const Topology topology = two_packages_one_node();
  for (const std::string allowed : {"0-127", "1-127"}) {
    const auto homes = homes_in(topology, parse_cpu_list(allowed, "test"), 3);
    const CpuSet first = parse_cpu_list("0-63", "test");
    EXPECT_EQ(
        std::count_if(homes.begin(), homes.end(),
                      [&](const CpuSet& home) { return home.intersects(first) && !first.contains(home); }),
        1);
    expect_in_other_numberings({topology, 3, allowed});
  }
}

// --- Counts that do not divide -----------------------------------------------------------------------------

std::vector<int> counts_touched(const Topology& topology, const CpuSet& home) {
  int nodes = 0;
  CpuSet packages;
  for (const NumaNode& node : topology.nodes) nodes += home.intersects(node.cpus);
  for (const Core& core : topology.cores) {
    if (home.intersects(core.cpus)) packages.insert(Pu{core.package});
  }
  return {nodes, static_cast<int>(packages.size())};
}

TEST(ExpertHomes, FiveRanksOnTwentyFourNodesNobodyGetsWhatOthersLeft) {
  // 38.4 cores need 5 nodes at least. Runs of neighbouring cores touch 5 or 6, and at most two packages.
  const Topology topology = make_topology({.packages = 4, .nodes_per_package = 6, .cores_per_l3 = 8});
  for (const CpuSet& home : homes_in(topology, topology.cpus, 5)) {
    EXPECT_LE(counts_touched(topology, home)[0], 6) << print(home);
    EXPECT_LE(counts_touched(topology, home)[1], 2) << print(home);
  }
  expect_in_other_numberings({topology, 5});
}

TEST(ExpertHomes, FiveRanksOnFourPackagesNobodyHasCoresOfAllFour) {
  const Topology topology = make_topology({.packages = 4, .cores_per_l3 = 10});
  const ExpertCase c{topology, 5};
  EXPECT_THAT(homes_of(c), ElementsAre("0-7", "8-15", "16-23", "24-31", "32-39"));
  expect_in_other_numberings(c);
}

TEST(ExpertHomes, TwoCoresOfDifferenceKeepARankOutOfTheOtherPackage) {
  // 15 and 17 cores: 16 and 16 would give rank 0 one core of the other package.
  const ExpertCase c{make_topology({.packages = 2, .cores_per_l3 = 17}), 2, "0-14,17-33"};
  EXPECT_THAT(homes_of(c), ElementsAre("0-14", "17-33"));
  EXPECT_THAT(mirrored_homes_of(c), ElementsAre("17-33", "0-14"));
  expect_in_other_numberings(c);
}

TEST(ExpertHomes, NoMoreThanTwoCoresOfDifference) {
  const ExpertCase c{make_topology({.packages = 2, .cores_per_l3 = 18}), 2, "0-14,18-35"};
  const auto homes = homes_of(c);
  EXPECT_THAT(homes, ElementsAre("0-14,18", "19-35"));
  expect_in_other_numberings(c);
}

// --- Fast and slow cores -----------------------------------------------------------------------------------

TEST(ExpertHomes, SixFastAndEightSlowCoresAreDealtEvenly) {
  const Topology topology = one_l3_group({1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0});
  EXPECT_THAT(homes_of({topology, 2}), ElementsAre("0-2,6-9", "3-5,10-13"));
  EXPECT_THAT(homes_of({topology, 3}), ElementsAre("0-1,6-7", "2-3,8-10", "4-5,11-13"));
  EXPECT_THAT(homes_of({topology, 6}), ElementsAre("0,6", "1,7", "2,8", "3,9", "4,10-11", "5,12-13"));
  for (const int ranks : {2, 3, 6}) expect_in_other_numberings({topology, ranks});
}

/// Returns a machine like a DGX Spark: two L3 groups, each with 5 slow cores and then 5 fast ones.
Topology spark() {
  return with_kinds(make_topology({.l3_per_node = 2, .cores_per_l3 = 10}), {0, 0, 0, 0, 0, 1, 1, 1, 1, 1});
}

TEST(ExpertHomes, SparkTwoRanksHaveAnL3GroupEach) {
  const ExpertCase c{spark(), 2};
  EXPECT_THAT(homes_of(c), ElementsAre("0-9", "10-19"));
  EXPECT_THAT(mirrored_homes_of(c), ElementsAre("10-19", "0-9"));
  expect_in_other_numberings(c);
}

// --- More ranks than GPUs ----------------------------------------------------------------------------------

/// Checks that no home has cores of two packages.
void expect_no_crossing(const ExpertCase& c) {
  const CpuSet allowed = c.allowed.empty() ? c.topology.cpus : parse_cpu_list(c.allowed, "test");
  for (const CpuSet& home : homes_in(c.topology, allowed, c.ranks))
    EXPECT_EQ(counts_touched(c.topology, home)[1], 1) << print(home);
  expect_in_other_numberings(c);
}

TEST(ExpertHomes, FourRanksAndOneGpuNoRankCrossesPackages) {
  expect_no_crossing({topology_of(own_machine("one-gpu.xml")), 4, "0-13"});
}

TEST(ExpertHomes, SixRanksAndFourGpusNoRankCrossesPackages) {
  expect_no_crossing({topology_of(own_machine("six-ranks-four-gpus.xml")), 6});
}

// --- Fast cores with an L3 group of their own --------------------------------------------------------------

/// Checks that two ranks have two fast cores each.
void expect_two_fast_cores_each(const Topology& topology) {
  const CpuSet fast = topology.cpu_kinds.back().cpus;
  for (const CpuSet& home : homes_in(topology, topology.cpus, 2)) {
    EXPECT_EQ(std::count_if(
                  topology.cores.begin(), topology.cores.end(),
                  [&](const Core& core) { return core.cpus.intersects(home) && core.cpus.intersects(fast); }),
              2)
        << print(home);
  }
  expect_in_other_numberings({topology, 2});
}

TEST(ExpertHomes, StrixPointEachRankHasFastCores) {
  expect_two_fast_cores_each(topology_of(own_machine("strix-point.xml")));
}

TEST(ExpertHomes, LunarLakeEachRankHasFastCores) {
  expect_two_fast_cores_each(topology_of(own_machine("lunar-lake.xml")));
}

TEST(ExpertHomes, CoresThatAreFastTodayDoNotSplitL3Groups) {
  Topology topology =
      with_kinds(make_topology({.l3_per_node = 2, .cores_per_l3 = 4}), {1, 1, 1, 1, 0, 0, 0, 0});
  topology.cpu_kinds[1].divides_make = true;
  EXPECT_THAT(homes_of({topology, 2}), ElementsAre("0-3", "4-7"));
}

}  // namespace
}  // namespace zf
