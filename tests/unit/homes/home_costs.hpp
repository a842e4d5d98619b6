// Counts the points by which homes are compared. It shares no code with homes_of().
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "machine/machine.hpp"
#include "machine/rank_gpus.hpp"

namespace zf {

/// The costs of a division, the most important point first; within a point the worst rank first.
struct Costs {
  std::vector<std::pair<const char*, std::vector<int>>> points;
  int smallest = 0;
  int largest = 0;
  bool overlaps = false;  ///< some ranks share a core
};

inline Costs costs_of(const Machine& machine, const RankGpus& gpus, const std::vector<CpuSet>& homes) {
  Costs costs;
  std::vector<int> near;
  std::vector<int> nodes;
  std::vector<int> sockets;
  std::vector<int> groups;
  std::vector<int> fast;
  std::vector<int> sizes;
  std::set<const Core*> taken;
  const Topology& topology = machine.topology;
  for (std::size_t rank = 0; rank < homes.size(); ++rank) {
    std::set<std::optional<Node>> of_node;
    std::set<int> of_socket;
    std::set<int> of_group;
    int close = 0;
    int quick = 0;
    int size = 0;
    const auto& gpu = gpus.gpus[rank];
    const CpuSet place = gpu ? gpu->local_cpus & machine.allowed.cpus : CpuSet();
    for (const Core& core : topology.cores) {
      if (!core.cpus.intersects(homes[rank])) continue;
      costs.overlaps = !taken.insert(&core).second || costs.overlaps;
      of_node.insert(core.node);
      of_socket.insert(core.package);
      of_group.insert(core.l3);
      close += core.cpus.intersects(place & homes[rank]);
      quick += core.kind == static_cast<int>(topology.cpu_kinds.size()) - 1;
      ++size;
    }
    if (!place.empty()) near.push_back(-close);
    nodes.push_back(static_cast<int>(of_node.size()));
    sockets.push_back(static_cast<int>(of_socket.size()));
    groups.push_back(static_cast<int>(of_group.size()));
    fast.push_back(topology.cpu_kinds.size() > 1 ? -quick : 0);
    sizes.push_back(size);
  }
  const auto [least, most] = std::minmax_element(sizes.begin(), sizes.end());
  costs.smallest = *least;
  costs.largest = *most;
  costs.points = {{"cores near the GPU", near}, {"NUMA nodes", nodes}, {"sockets", sockets},
                  {"L3 groups", groups},        {"fast cores", fast},  {"balance", {*most - *least}}};
  for (auto& [name, cost] : costs.points) std::sort(cost.begin(), cost.end(), std::greater<>());
  return costs;
}

}  // namespace zf
