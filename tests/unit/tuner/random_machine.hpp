// Machines, allowed sets and wishes by the dice, the same for the same seed everywhere.
#pragma once

#include <fmt/core.h>

#include <random>
#include <string>
#include <vector>

#include "make_topology.hpp"
#include "tuner/homes.hpp"

namespace zf {

struct RandomCase {
  unsigned seed = 0;
  Topology topology;
  Allowed allowed;
  std::vector<RankWish> wishes;

  std::string describe() const {
    std::string wanted;
    for (const RankWish& wish : wishes) wanted += wish.near ? fmt::format(" {}", wish.near->os_index) : " -";
    return fmt::format("seed {}: {} packages, {} nodes, {} L3 groups, {} cores, allowed {}, wishes{}", seed,
                       topology.packages, topology.nodes.size(), topology.l3_groups.size(),
                       topology.cores.size(), print(allowed.cpus), wanted);
  }
};

/// 1 to 4 packages of 1 to 4 nodes of 1 to 4 L3 groups of 1 to 8 cores of 1, 2 or 4 PUs; allowed: everything,
/// scattered PUs, or a few runs; 1 rank up to one per allowed core; a third of the cases with wishes.
inline RandomCase random_case(unsigned seed) {
  std::mt19937 random(seed);
  const auto dice = [&](int low, int high) {  // std::uniform_int_distribution differs between libraries
    return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
  };
  RandomCase c;
  c.seed = seed;
  c.topology = make_topology({.packages = dice(1, 4),
                              .nodes_per_package = dice(1, 4),
                              .l3_per_node = dice(1, 4),
                              .cores_per_l3 = dice(1, 8),
                              .pus_per_core = 1 << dice(0, 2),
                              .numbering = dice(0, 1) == 0 ? Numbering::adjacent : Numbering::interleaved,
                              .node_id_step = dice(0, 3) == 0 ? 8 : 1});
  c.allowed.mems = node_ids(c.topology);
  const std::vector<Pu> pus(c.topology.cpus.begin(), c.topology.cpus.end());
  const int count = static_cast<int>(pus.size());
  switch (dice(0, 2)) {
    case 0:
      c.allowed.cpus = c.topology.cpus;
      break;
    case 1:
      for (const Pu pu : pus) {
        if (dice(0, 2) > 0) c.allowed.cpus.insert(pu);
      }
      break;
    default:
      for (int run = dice(1, 5); run > 0; --run) {
        const int first = dice(0, count - 1);
        for (int i = first; i < std::min(count, first + dice(1, 12)); ++i)
          c.allowed.cpus.insert(pus[static_cast<std::size_t>(i)]);
      }
  }
  if (c.allowed.cpus.empty()) c.allowed.cpus.insert(pus.front());

  int cores = 0;
  for (const Core& core : c.topology.cores) cores += core.cpus.intersects(c.allowed.cpus);
  c.wishes.resize(static_cast<std::size_t>(dice(1, dice(0, 1) == 0 ? std::min(cores, 8) : cores)));
  if (dice(0, 2) == 0) {
    for (RankWish& wish : c.wishes) {
      const auto node = static_cast<std::size_t>(dice(0, static_cast<int>(c.topology.nodes.size())));
      if (node < c.topology.nodes.size()) wish.near = c.topology.nodes[node].id;
    }
  }
  return c;
}

}  // namespace zf
