// Machines and masks on which the search for homes is tried. The same seed gives the same ones everywhere.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "../topology/make_topology.hpp"
#include "base/format.hpp"
#include "homes/homes.hpp"
#include "random_machine.hpp"

namespace zf {

struct SearchCase {
  Topology topology;
  CpuSet allowed;
  std::vector<Preference> preferences;
  std::string words;
};

inline CpuSet cpus_of_package(const Topology& topology, int package) {
  CpuSet cpus;
  for (const Core& core : topology.cores) {
    if (core.package == package) cpus |= core.cpus;
  }
  return cpus;
}

/// Returns a place near a node, near a part of it, near a package, or no more than a package.
inline Preference random_place(const Topology& topology, Dice& dice) {
  const NumaNode& node = topology.nodes[dice.index(topology.nodes.size())];
  const std::vector<Pu> cpus(node.cpus.begin(), node.cpus.end());
  const int package = dice(0, topology.packages - 1);
  switch (dice(0, 3)) {
    case 0:
      return {node.id, {}, node.cpus};
    case 1: {
      const int first = dice(0, static_cast<int>(cpus.size()) - 1);
      const int last = dice(first, static_cast<int>(cpus.size()) - 1);
      return {node.id, {}, CpuSet(std::vector<Pu>(cpus.begin() + first, cpus.begin() + last + 1))};
    }
    case 2:
      return {{}, package, cpus_of_package(topology, package)};
    default:
      return {{}, package, {}};
  }
}

/// Makes some cores faster: those of other makes, or some of one make today.
inline void mix_kinds(Topology& topology, Dice& dice) {
  const int kinds = dice(1, 3);
  topology.cpu_kinds.resize(static_cast<std::size_t>(kinds));
  for (int kind = 1; kind < kinds; ++kind)
    topology.cpu_kinds[static_cast<std::size_t>(kind)].divides_make = dice(0, 1) == 0;
  const bool scattered = dice(0, 1) == 0;
  for (std::size_t core = 0; core < topology.cores.size(); ++core) {
    topology.cores[core].kind =
        scattered ? dice(0, kinds - 1)
                  : static_cast<int>(core * static_cast<std::size_t>(kinds) / topology.cores.size());
  }
}

/// Returns a machine with 1 to `most_cores` allowed cores, up to four ranks, and GPUs that are known for none
/// of them, some, or all.
inline SearchCase small_case(unsigned seed, int most_cores) {
  Dice dice(seed);
  SearchCase c;
  c.topology = make_topology({.packages = dice(1, 2),
                              .nodes_per_package = dice(1, 2),
                              .l3_per_node = dice(1, 2),
                              .cores_per_l3 = dice(1, 6)});
  if (dice(0, 3) == 0) mix_kinds(c.topology, dice);
  if (dice(0, 7) == 0) {  // one node over all packages
    c.topology.nodes.resize(1);
    c.topology.nodes[0].cpus = c.topology.cpus;
    for (Core& core : c.topology.cores) core.node = c.topology.nodes[0].id;
  }
  for (Core& core : c.topology.cores) {
    if (core.kind == 0 && c.topology.cpu_kinds.size() > 1 && seed % 2 == 0) core.l3 = -1;
  }
  std::vector<Pu> cpus(c.topology.cpus.begin(), c.topology.cpus.end());
  for (std::size_t i = cpus.size(); i > 1; --i) std::swap(cpus[i - 1], cpus[dice.index(i)]);
  const int cores = dice(1, std::min(most_cores, static_cast<int>(cpus.size())));
  cpus.resize(static_cast<std::size_t>(cores));
  c.allowed = CpuSet(cpus);
  c.preferences.resize(static_cast<std::size_t>(dice(1, std::min(4, cores))));
  const int known = dice(0, 2);  // none, some, all
  for (Preference& preference : c.preferences) {
    if (known == 2 || (known == 1 && dice(0, 1) == 0)) preference = random_place(c.topology, dice);
  }
  c.words = format_text("seed {}: {} of {} cores, {} ranks", seed, cores, c.topology.cores.size(),
                        c.preferences.size());
  return c;
}

/// A machine of the kinds that clusters have, and the node (or, with `near_l3`, the L3 group) of each GPU.
struct ClusterNode {
  const char* name;
  MachineShape shape;
  std::vector<int> gpus = {};
  bool near_l3 = false;
  int fast_cores = 0;  ///< of each L3 group the last ones
};

inline const std::array<ClusterNode, 10>& cluster_nodes() {
  static const std::array<ClusterNode, 10> nodes{{
      {"2x24", {.packages = 2, .l3_per_node = 2, .cores_per_l3 = 12}},
      {"2x96, 8 GPUs", {.packages = 2, .l3_per_node = 12, .cores_per_l3 = 8}, {0, 0, 0, 0, 1, 1, 1, 1}},
      {"2x64 NPS4, 8 GPUs",
       {.packages = 2, .nodes_per_package = 4, .l3_per_node = 2, .cores_per_l3 = 8},
       {3, 3, 1, 1, 7, 7, 5, 5}},
      {"2x32, 4 GPUs on one package", {.packages = 2, .cores_per_l3 = 32}, {0, 0, 0, 0}},
      {"MI250X",
       {.nodes_per_package = 4, .l3_per_node = 2, .cores_per_l3 = 8},
       {6, 7, 2, 3, 0, 1, 4, 5},
       true},
      {"4x48 NPS6", {.packages = 4, .nodes_per_package = 6, .cores_per_l3 = 8}},
      {"2x48 SNC4, 4 GPUs", {.packages = 2, .nodes_per_package = 4, .cores_per_l3 = 12}, {0, 2, 4, 6}},
      {"16 small L3 groups", {.packages = 2, .l3_per_node = 8, .cores_per_l3 = 4}},
      {"two L3 groups of slow and fast cores", {.l3_per_node = 2, .cores_per_l3 = 10}, {}, false, 5},
      {"4x28, 2 GPUs", {.packages = 4, .cores_per_l3 = 28}, {1, 3}},
  }};
  return nodes;
}

inline Topology topology_of(const ClusterNode& node) {
  Topology topology = make_topology(node.shape);
  if (node.fast_cores == 0) return topology;
  topology.cpu_kinds.resize(2);
  for (std::size_t core = 0; core < topology.cores.size(); ++core) {
    const int in_group = static_cast<int>(core) % node.shape.cores_per_l3;
    topology.cores[core].kind = in_group >= node.shape.cores_per_l3 - node.fast_cores ? 1 : 0;
  }
  return topology;
}

/// The ways in which a scheduler leaves cores to a job.
enum class MaskKind { sparse, ragged, by_package };

inline constexpr std::array kMaskKinds{MaskKind::sparse, MaskKind::ragged, MaskKind::by_package};

/// Returns single cores that other jobs have left, a run of each L3 group, or a run of each package.
inline CpuSet slurm_like_mask(const Topology& topology, MaskKind kind, Dice& dice) {
  CpuSet mask;
  const int part = dice(2, 5);
  int start = 0;
  int end = 0;
  for (std::size_t i = 0; i < topology.cores.size(); ++i) {
    const Core& core = topology.cores[i];
    const bool new_run = i == 0 || (kind == MaskKind::ragged ? core.l3 != topology.cores[i - 1].l3
                                                             : core.package != topology.cores[i - 1].package);
    if (new_run) {
      int size = 0;
      for (const Core& other : topology.cores)
        size += kind == MaskKind::ragged ? other.l3 == core.l3 : other.package == core.package;
      start = static_cast<int>(i) + (dice(0, 1) == 0 ? 0 : dice(0, size - 1));
      end = start + dice(0, size);
    }
    const bool is_in_run = static_cast<int>(i) >= start && static_cast<int>(i) < end;
    if (kind == MaskKind::sparse ? dice(0, 5) < part : is_in_run) mask |= core.cpus;
  }
  return mask;
}

/// Returns one of 1,140 jobs: 10 nodes x 3 kinds of masks x 38.
inline constexpr unsigned kMasks = 1140;
inline SearchCase mask_case(unsigned number) {
  const ClusterNode& node = cluster_nodes()[number % 10];
  const MaskKind kind = kMaskKinds[number / 10 % 3];
  Dice dice(number);
  SearchCase c;
  c.topology = topology_of(node);
  const int ranks = dice(2, 8);
  std::size_t cores = 0;
  while (cores < static_cast<std::size_t>(ranks)) {
    c.allowed = slurm_like_mask(c.topology, kind, dice);
    cores = c.allowed.size();
  }
  c.preferences.resize(static_cast<std::size_t>(ranks));
  for (std::size_t rank = 0; rank < std::min(c.preferences.size(), node.gpus.size()); ++rank) {
    const auto place = static_cast<std::size_t>(node.gpus[rank]);
    const NumaNode& numa = c.topology.nodes[node.near_l3 ? place / 2 : place];
    c.preferences[rank] = {numa.id, {}, node.near_l3 ? c.topology.l3_groups[place].cpus : numa.cpus};
  }
  c.words = format_text("{}: {}, CPUs {}, {} ranks", number, node.name, print(c.allowed), ranks);
  return c;
}

}  // namespace zf
