// The same machine in another order, or with other CPU numbers: its homes must be the same, or as good.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include "base/cpu_list.hpp"
#include "home_costs.hpp"
#include "homes/rank_homes.hpp"
#include "homes/split.hpp"
#include "search/controls.hpp"
#include "topology/topology.hpp"

namespace zf {

using Renumbering = std::map<Pu, Pu>;

/// Returns a shuffle of the CPU numbers; the same seed gives the same one everywhere.
inline Renumbering shuffled_numbers(const CpuSet& cpus, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Pu> to(cpus.begin(), cpus.end());
  for (std::size_t i = to.size(); i > 1; --i) std::swap(to[i - 1], to[random() % i]);
  Renumbering numbers;
  std::size_t next = 0;
  for (const Pu from : cpus) numbers[from] = to[next++];
  return numbers;
}

inline CpuSet renumbered(const CpuSet& cpus, const Renumbering& numbers) {
  CpuSet result;
  for (const Pu pu : cpus) result.insert(numbers.at(pu));
  return result;
}

/// Returns the machine with other CPU numbers. The topological order stays.
inline Topology renumbered(Topology topology, const Renumbering& numbers) {
  const auto change = [&](CpuSet& cpus) { cpus = renumbered(cpus, numbers); };
  for (Core& core : topology.cores) change(core.cpus);
  for (L3Group& group : topology.l3_groups) change(group.cpus);
  for (CpuKind& kind : topology.cpu_kinds) change(kind.cpus);
  for (Gpu& gpu : topology.gpus) change(gpu.local_cpus);
  for (NumaNode& node : topology.nodes) {
    change(node.cpus);
    change(node.local_cpus);
  }
  return topology;
}

/// Returns the machine with the topological order of its cores and L3 groups reversed. The numbers stay.
inline Topology mirrored(Topology topology) {
  std::reverse(topology.cores.begin(), topology.cores.end());
  std::reverse(topology.l3_groups.begin(), topology.l3_groups.end());
  const int last = static_cast<int>(topology.l3_groups.size()) - 1;
  for (Core& core : topology.cores) core.l3 = last - core.l3;
  return topology;
}

inline std::vector<CpuSet> cpus_of_homes(const RankHomes& ranks) {
  std::vector<CpuSet> homes;
  for (const Home& home : ranks.homes) homes.push_back(home.cpus());
  return homes;
}

/// Returns each rank's training CPUs if half of the cores train.
inline std::vector<CpuSet> training_of_half(const RankHomes& ranks) {
  std::vector<CpuSet> training;
  for (const RankSplit& rank : split_of(ranks.homes, control_shape(Control::half)).ranks)
    training.push_back(rank.training);
  return training;
}

inline std::vector<int> fast_cores_of(const Costs& costs) {
  for (const auto& [name, cost] : costs.points) {
    if (name == std::string_view("fast cores")) return cost;
  }
  return {};
}

/// Checks that CPU numbers have no part in the homes: with others, each rank has the same cores, trains on
/// the same ones, and has the same memory. Checks that the order of the cores has a part in them only where
/// several divisions are equally good: on the mirrored machine all points that count are the same.
inline void expect_homes_in_other_numberings(const Machine& machine, int ranks) {
  const RankGpus gpus = rank_gpus({}, machine.topology, ranks);
  const RankHomes homes = rank_homes(machine, gpus);
  Machine other = machine;
  for (const unsigned seed : {17U, 18U}) {
    const Renumbering numbers = shuffled_numbers(machine.topology.cpus, seed);
    other.topology = renumbered(machine.topology, numbers);
    other.allowed.cpus = renumbered(machine.allowed.cpus, numbers);
    const RankHomes moved = rank_homes(other, rank_gpus({}, other.topology, ranks));
    for (std::size_t rank = 0; rank < homes.homes.size(); ++rank) {
      EXPECT_EQ(print(cpus_of_homes(moved)[rank]), print(renumbered(cpus_of_homes(homes)[rank], numbers)));
      EXPECT_EQ(print(training_of_half(moved)[rank]),
                print(renumbered(training_of_half(homes)[rank], numbers)));
      EXPECT_EQ(print(moved.homes[rank].mems), print(homes.homes[rank].mems));
    }
  }
  other.topology = mirrored(machine.topology);
  other.allowed.cpus = machine.allowed.cpus;
  const RankHomes moved = rank_homes(other, rank_gpus({}, other.topology, ranks));
  const Costs before = costs_of(machine, gpus, cpus_of_homes(homes));
  const Costs after = costs_of(machine, gpus, cpus_of_homes(moved));
  for (std::size_t point = 0; point < before.points.size(); ++point) {
    const auto& [name, cost] = before.points[point];
    EXPECT_EQ(after.points[point].second, cost) << name << ", mirrored";
  }
  EXPECT_EQ(fast_cores_of(costs_of(machine, gpus, training_of_half(moved))),
            fast_cores_of(costs_of(machine, gpus, training_of_half(homes))))
      << "in training, mirrored";
}

}  // namespace zf
