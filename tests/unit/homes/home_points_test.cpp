#include "homes/home_points.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "base/format.hpp"
#include "homes/home_score.hpp"
#include "homes/index.hpp"
#include "os/file.hpp"
#include "paths.hpp"
#include "search_cases.hpp"

namespace zf {
namespace {

TEST(HomePoints, ThePageHasTheirSentencesInTheirOrder) {
  const std::string page = read_text_file(std::string(kSourceDir) + "/docs/homes.md");
  const std::string unwrapped = std::regex_replace(page, std::regex("\n +"), " ");
  std::string list;
  for (std::size_t i = 0; i < kHomePoints.size(); ++i)
    list += format_text("{}. **{}**: {}\n", i + 1, kHomePoints[i].name, kHomePoints[i].sentence);
  EXPECT_THAT(unwrapped, testing::HasSubstr("\n\n" + list + "\n"));
}

TEST(HomePoints, SizesDifferByTwoOnlyWhereOneIsGivenAway) {
  const auto sizes = [](int cores, int ranks) {
    const HomeSizes allowed = home_sizes(cores, ranks);
    return std::pair(allowed.least, allowed.most);
  };
  EXPECT_EQ(sizes(8, 2), std::pair(4, 4));
  EXPECT_EQ(sizes(9, 2), std::pair(4, 5));
  EXPECT_EQ(sizes(11, 3), std::pair(3, 5));
  EXPECT_EQ(sizes(16, 2), std::pair(7, 9));
  EXPECT_EQ(sizes(17, 2), std::pair(7, 9));
  EXPECT_EQ(sizes(26, 3), std::pair(7, 10));
  EXPECT_EQ(sizes(16, 1), std::pair(16, 16));
}

/// Returns the machine of two packages of two nodes of 4 cores each; a GPU of rank 0 is near node 0.
Domains two_ranks() {
  const Topology topology = make_topology({.packages = 2, .nodes_per_package = 2, .cores_per_l3 = 4});
  return domains_of(topology, topology.cpus, {{Node{0}, {}, topology.nodes[0].cpus}, {}});
}

/// Returns the homes of the division that gives the first rank these cores, and the second all others.
Division with_first(const std::vector<int>& cores) {
  Division division{cores, {}};
  for (int core = 0; core < 16; ++core) {
    if (std::find(cores.begin(), cores.end(), core) == cores.end()) division[1].push_back(core);
  }
  return division;
}

TEST(HomePoints, TheFirstDifferenceDecides) {
  const Domains domains = two_ranks();
  const HomeScore near = score_of(domains, with_first({0, 1, 2, 3, 8, 9, 12, 13}));
  const HomeScore in_package = score_of(domains, with_first({0, 1, 2, 4, 5, 6, 7, 8}));
  EXPECT_LT(near, in_package) << "4 cores near the GPU before 3, whatever the packages";
  const HomeScore best = score_of(domains, with_first({0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_LT(best, near);
  EXPECT_EQ(best.of(HomePoint::near_gpu), std::vector<int>{-4});
  EXPECT_EQ(best.of(HomePoint::gpu_package), std::vector<int>{-8});
  EXPECT_EQ(best.of(HomePoint::packages), (std::vector<int>{1, 1}));
  EXPECT_LT(best, score_of(domains, with_first({0, 1, 2, 3, 4, 5, 6}))) << "equal sizes";
}

TEST(HomePoints, ACoreWithoutAnL3CacheIsInNoGroup) {
  Topology topology = make_topology({.l3_per_node = 2, .cores_per_l3 = 4});
  for (std::size_t core = 4; core < 8; ++core) topology.cores[core].l3 = -1;
  const Domains domains = domains_of(topology, topology.cpus, std::vector<Preference>(2));
  EXPECT_EQ(score_of(domains, {{0, 1, 4, 5}, {2, 3, 6, 7}}).of(HomePoint::l3_groups),
            (std::vector<int>{1, 1}));
}

}  // namespace
}  // namespace zf
