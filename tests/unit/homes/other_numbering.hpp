// The same machine in another order, or with other CPU numbers.
#pragma once

#include <algorithm>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "machine/topology.hpp"

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

}  // namespace zf
