// Compares homes with the best of all divisions of small machines.
#include "homes_judge.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "all_searches.hpp"
#include "base/format.hpp"
#include "os/standard_streams.hpp"
#include "random_machine.hpp"

namespace zf {
namespace {

/// A small machine with any number of allowed cores in each node, ranks, and a GPU for all of them or for
/// none.
struct SmallCase {
  Topology topology;
  Allowed allowed;
  std::vector<Preference> preferences;
};

/// Returns one or two packages with a node or two each, or with one node over all packages. Of each node at
/// least `least` and at most 5 cores are allowed.
SmallCase machine_without_ranks(Dice& dice, int most_nodes, int least, bool may_interleave) {
  SmallCase c;
  const int packages = dice(1, 2);
  const int per_package = dice(1, std::max(1, most_nodes / packages));
  c.topology = make_topology({.packages = packages, .nodes_per_package = per_package, .cores_per_l3 = 5});
  for (const NumaNode& node : c.topology.nodes) {
    int left = dice(least, 5);
    for (const Pu pu : node.cpus) {
      if (left-- > 0) c.allowed.cpus.insert(pu);
    }
  }
  if (may_interleave && per_package == 1 && dice(0, 3) == 0) {
    c.topology.nodes.resize(1);
    c.topology.nodes[0].cpus = c.topology.cpus;
    for (Core& core : c.topology.cores) core.node = c.topology.nodes[0].id;
  }
  c.allowed.mems = node_ids(c.topology);
  return c;
}

void add_ranks(SmallCase& c, Dice& dice, int most) {
  c.preferences.resize(
      static_cast<std::size_t>(dice(1, std::min(most, static_cast<int>(c.allowed.cpus.size())))));
}

/// Returns a case in which each GPU is near a node, or there are none.
SmallCase with_gpus_near_nodes(Dice& dice) {
  SmallCase c = machine_without_ranks(dice, 4, 1, true);
  add_ranks(c, dice, 4);
  const bool has_gpus = (c.topology.nodes.size() > 1 || c.topology.packages == 1) && dice(0, 1) == 0;
  for (Preference& preference : c.preferences) {
    if (has_gpus) preference.near = c.topology.nodes[dice.index(c.topology.nodes.size())].id;
  }
  return c;
}

/// Returns a case in which each GPU is near one to three neighbouring cores of a node.
SmallCase with_gpus_near_parts(Dice& dice) {
  SmallCase c = machine_without_ranks(dice, 2, 2, false);
  add_ranks(c, dice, 3);
  for (Preference& preference : c.preferences) {
    const NumaNode& node = c.topology.nodes[dice.index(c.topology.nodes.size())];
    const CpuSet cpus = node.cpus & c.allowed.cpus;
    const int all = static_cast<int>(cpus.size());
    const int count = dice(1, std::min(3, all - 1));
    int skip = dice(0, all - count);
    for (const Pu pu : cpus) {
      if (skip-- <= 0 && static_cast<int>(preference.cpus.size()) < count) preference.cpus.insert(pu);
    }
    preference.near = node.id;
  }
  return c;
}

/// Returns a case of slow and fast cores, without GPUs.
SmallCase with_two_kinds(Dice& dice) {
  SmallCase c = machine_without_ranks(dice, 2, 2, true);
  add_ranks(c, dice, 3);
  c.topology.cpu_kinds.resize(2);
  for (Core& core : c.topology.cores) {
    core.kind = dice(0, 1);
    c.topology.cpu_kinds[static_cast<std::size_t>(core.kind)].cpus |= core.cpus;
  }
  return c;
}

/// A case as the judge sees it, and our division of it.
struct Judged {
  Zones zones;
  Counts ours;
  int spread = 0;  ///< cores of our largest home minus those of the smallest
};

Judged judged(const SmallCase& c) {
  Judged result;
  result.zones.near.resize(c.preferences.size());
  std::map<std::tuple<int, int, int, std::vector<bool>>, std::size_t> known;
  std::map<Pu, std::size_t> part_of;
  for (const Core& core : c.topology.cores) {
    if (!c.allowed.cpus.contains(core.cpus)) continue;
    std::vector<bool> near;
    for (const Preference& preference : c.preferences)
      near.push_back(preference.cpus.empty() ? preference.near == core.node
                                             : preference.cpus.intersects(core.cpus));
    const auto [at, is_new] =
        known.try_emplace({core.package, core.node->os_index, core.kind, near}, result.zones.all.size());
    if (is_new) {
      for (std::size_t rank = 0; rank < near.size(); ++rank) {
        if (near[rank]) result.zones.near[rank].insert(at->second);
      }
      result.zones.all.push_back({0, core.package, core.node->os_index, core.kind == 1});
    }
    ++result.zones.all[at->second].cores;
    part_of[core.cpus.first()] = at->second;
  }
  std::vector<int> sizes;
  for (const Home& home : homes_of(c.topology, c.allowed, c.preferences)) {
    std::vector<int>& counts = result.ours.emplace_back(result.zones.all.size());
    for (const HomeCore& core : home.cores) ++counts[part_of.at(core.cpus.first())];
    sizes.push_back(static_cast<int>(home.cores.size()));
  }
  const auto [least, most] = std::minmax_element(sizes.begin(), sizes.end());
  result.spread = *most - *least;
  return result;
}

/// The seeds in which some division is better than ours, and how many of ours differ by two cores.
struct Found {
  std::vector<unsigned> worse;
  int wide = 0;
};

/// Compares all cases with the best of all divisions.
Found compare_all(SmallCase (*make)(Dice&)) {
  const unsigned cases = all_searches() ? 3000 : 800 / ZF_FEWER;
  Found found;
  for (unsigned seed = 0; seed < cases; ++seed) {
    Dice dice(seed);
    const Judged one = judged(make(dice));
    EXPECT_LE(one.spread, 2);
    found.wide += one.spread == 2;
    if (Judge(one.zones).best() < verdict_on(one.zones, one.ours)) {
      print_stdout("seed {}: {}\n", seed, words_of(one.zones, one.ours));
      found.worse.push_back(seed);
    }
  }
  return found;
}

TEST(HomesJudge, NoDivisionIsBetterWithGpusNearNodes) {
  const Found found = compare_all(with_gpus_near_nodes);
  EXPECT_THAT(found.worse, testing::IsEmpty());
  EXPECT_GT(found.wide, 0);
}

TEST(HomesJudge, NoDivisionIsBetterWithGpusNearPartsOfNodes) {
  EXPECT_THAT(compare_all(with_gpus_near_parts).worse, testing::IsEmpty());
}

TEST(HomesJudge, NoDivisionIsBetterWithFastAndSlowCores) {
  EXPECT_THAT(compare_all(with_two_kinds).worse, testing::IsEmpty());
}

}  // namespace
}  // namespace zf
