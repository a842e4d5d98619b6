// Random machines, allowed sets and preferences. The same seed gives the same ones everywhere.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "../topology/make_topology.hpp"
#include "base/format.hpp"
#include "homes/homes.hpp"

namespace zf {

struct RandomCase {
  unsigned seed = 0;
  Topology topology;
  Allowed allowed;
  std::vector<Preference> preferences;

  std::string describe() const {
    std::string wanted;
    for (const Preference& preference : preferences)
      wanted += preference.near ? format_text(" {}", preference.near->os_index) : " -";
    return format_text("seed {}: {} packages, {} nodes, {} L3 groups, {} cores, allowed {}, preferences{}",
                       seed, topology.packages, topology.nodes.size(), topology.l3_groups.size(),
                       topology.cores.size(), print(allowed.cpus), wanted);
  }
};

/// Random numbers that are the same for the same seed everywhere (std::uniform_int_distribution differs
/// between libraries).
class Dice {
 public:
  explicit Dice(unsigned seed) : random_(seed) {}
  int operator()(int low, int high) {
    return low + static_cast<int>(random_() % static_cast<unsigned>(high - low + 1));
  }
  std::size_t index(std::size_t size) { return random_() % size; }

 private:
  std::mt19937 random_;
};

/// Returns 1 to 4 packages of 1 to 4 nodes of 1 to 4 L3 groups of 1 to 8 cores of 1, 2 or 4 PUs.
inline Topology random_topology(Dice& dice) {
  MachineShape shape;
  shape.packages = dice(1, 4);
  shape.nodes_per_package = dice(1, 4);
  shape.l3_per_node = dice(1, 4);
  shape.cores_per_l3 = dice(1, 8);
  shape.pus_per_core = 1 << dice(0, 2);
  shape.numbering = dice(0, 1) == 0 ? Numbering::adjacent : Numbering::interleaved;
  shape.node_id_step = dice(0, 3) == 0 ? 8 : 1;
  return make_topology(shape);
}

/// Returns all CPUs, scattered PUs, or a few runs; never an empty set.
inline CpuSet random_cpus(const CpuSet& all, Dice& dice) {
  const std::vector<Pu> pus(all.begin(), all.end());
  const int count = static_cast<int>(pus.size());
  CpuSet some;
  switch (dice(0, 2)) {
    case 0:
      return all;
    case 1:
      for (const Pu pu : pus) {
        if (dice(0, 2) > 0) some.insert(pu);
      }
      break;
    default:
      for (int run = dice(1, 5); run > 0; --run) {
        const int first = dice(0, count - 1);
        const int end = std::min(count, first + dice(1, 12));
        for (int i = first; i < end; ++i) some.insert(pus[static_cast<std::size_t>(i)]);
      }
  }
  return some.empty() ? CpuSet{pus.front()} : some;
}

/// Returns 1 rank up to one per core that has an allowed PU; few ranks are as likely as many.
inline int random_ranks(const Topology& topology, const CpuSet& allowed, Dice& dice) {
  int cores = 0;
  for (const Core& core : topology.cores) cores += core.cpus.intersects(allowed);
  return dice(1, dice(0, 1) == 0 ? std::min(cores, 8) : cores);
}

/// Returns a random case. A third of the cases have preferences.
inline RandomCase random_case(unsigned seed) {
  Dice dice(seed);
  RandomCase c;
  c.seed = seed;
  c.topology = random_topology(dice);
  c.allowed.mems = node_ids(c.topology);
  c.allowed.cpus = random_cpus(c.topology.cpus, dice);
  c.preferences.resize(static_cast<std::size_t>(random_ranks(c.topology, c.allowed.cpus, dice)));
  if (dice(0, 2) == 0) {
    for (Preference& preference : c.preferences) {
      const auto node = dice.index(c.topology.nodes.size() + 1);
      if (node < c.topology.nodes.size()) preference.near = c.topology.nodes[node].id;
    }
  }
  return c;
}

}  // namespace zf
