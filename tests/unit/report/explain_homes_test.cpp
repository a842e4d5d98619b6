#include "report/explain_homes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../topology/make_topology.hpp"

namespace zf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Returns a plan for all CPUs of the machine, with these homes.
Plan plan_with(const Topology& topology, const std::vector<std::string>& homes) {
  Plan plan;
  plan.allocation.cpus = topology.cpus;
  for (const std::string& cpus : homes) {
    RankBinding& rank = plan.ranks.emplace_back();
    rank.rank = static_cast<int>(plan.ranks.size()) - 1;
    rank.home.cpus = parse_cpu_list(cpus, "test");
  }
  return plan;
}

/// Returns four NUMA nodes of two L3 groups of eight cores.
Topology four_nodes() { return make_topology({.nodes_per_package = 4, .l3_per_node = 2, .cores_per_l3 = 8}); }

TEST(HomeWishes, TheCpusNearTheGpuAreMetAndWhatIsLackingIsSaid) {
  Plan plan = plan_with(four_nodes(), {"24-55", "0-3,16-23,56-63"});
  plan.allocation.cpus = parse_cpu_list("0-3,16-63", "test");  // the first node is small: the largest count
  plan.ranks[0].gpu = RankGpu{"0000:c1:00.0", Node{3}, parse_cpu_list("48-55", "test")};
  plan.ranks[1].gpu = RankGpu{"0000:c6:00.0", Node{3}, parse_cpu_list("56-63", "test")};
  const auto wishes = wishes_of_homes(plan, four_nodes());
  EXPECT_THAT(wishes[0].met,
              ElementsAre("GPU's CPUs", "GPU's package", "packages", "equal sizes", "L3 groups"));
  EXPECT_THAT(wishes[0].lacks, ElementsAre("1 NUMA node more than 32 cores need"));
}

TEST(HomeWishes, WhatOthersHaveNearTheGpuIsLacking) {
  Plan plan = plan_with(four_nodes(), {"0-31", "32-63"});
  for (RankBinding& rank : plan.ranks)
    rank.gpu = RankGpu{"0000:c1:00.0", Node{0}, parse_cpu_list("24-39", "test")};
  EXPECT_THAT(wishes_of_homes(plan, four_nodes())[1].lacks,
              ElementsAre("8 cores that could be near its GPU"));
}

TEST(HomeWishes, UnevenSizesAndFastCores) {
  Topology topology = make_topology({.packages = 2, .cores_per_l3 = 16});
  topology.cpu_kinds.resize(2);
  for (std::size_t core = 0; core < 6; ++core) topology.cores[core].kind = 1;
  const auto wishes = wishes_of_homes(plan_with(topology, {"0-14", "15-31"}), topology);
  EXPECT_THAT(wishes[0].lacks, ElementsAre("1 core less than an even share"));
  EXPECT_THAT(wishes[1].lacks, ElementsAre("3 fast cores less than an even share"));
  EXPECT_THAT(wishes[1].met, ElementsAre("NUMA nodes", "packages", "equal sizes", "L3 groups"));
}

TEST(HomeWishes, WhatIsNotKnownIsNoWish) {
  Topology topology = make_topology({.cores_per_l3 = 4});
  topology.l3_groups.clear();
  for (Core& core : topology.cores) core.l3 = -1;
  const auto wishes = wishes_of_homes(plan_with(topology, {"0-1", "2-3"}), topology);
  EXPECT_THAT(wishes[0].met, ElementsAre("NUMA nodes", "packages", "equal sizes"));
  EXPECT_THAT(wishes[0].lacks, IsEmpty());
}

TEST(ExplainHomes, RanksOfWhichTheSameIsTrueShareALine) {
  const Topology topology = make_topology({.packages = 2, .cores_per_l3 = 8});
  const std::string text = explain_homes(plan_with(topology, {"0-7", "8-15"}), topology);
  const std::string row = "  0,1    every wish  nothing\n";
  EXPECT_THAT(text, HasSubstr(row));
  EXPECT_EQ(text.find(row), text.rfind(row)) << "once";
}

TEST(ExplainHomes, ThePointsThatAreKnownHaveSentencesAndColumns) {
  Topology topology = make_topology({.packages = 2, .cores_per_l3 = 8});
  const std::string text = explain_homes(plan_with(topology, {"0-7", "8-15"}), topology);
  EXPECT_THAT(text, HasSubstr("1. Few NUMA nodes. 2. Few packages; a NUMA node can have several (node "
                              "interleaving, NPS0). 3. Many cores for the smallest home. 4. Few L3 groups"));
  EXPECT_THAT(text, HasSubstr("  rank  NUMA nodes  packages  cores  L3 groups  CPUs\n"
                              "     0           1         1      8          1  0-7\n"));
}

}  // namespace
}  // namespace zf
