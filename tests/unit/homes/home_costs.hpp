// Counts the points by which homes are compared. It shares no code with homes_of().
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "gpus/rank_gpus.hpp"
#include "machine/machine.hpp"

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
  std::vector<int> fast;   // of the fastest make
  std::vector<int> today;  // of the fastest kind
  std::vector<int> sizes;
  std::set<const Core*> taken;
  const Topology& topology = machine.topology;
  const int kinds = static_cast<int>(topology.cpu_kinds.size());
  const auto usable = std::count_if(topology.cores.begin(), topology.cores.end(), [&](const Core& core) {
    return core.cpus.intersects(machine.allowed.cpus);
  });
  const int even_share = static_cast<int>(usable) / static_cast<int>(homes.size());
  for (std::size_t rank = 0; rank < homes.size(); ++rank) {
    std::set<std::optional<Node>> of_node;
    std::set<int> of_socket;
    std::set<int> of_group;
    int close = 0;
    int quick = 0;
    int quick_today = 0;
    int size = 0;
    const auto& gpu = gpus.gpus[rank];
    const CpuSet place = gpu ? gpu->local_cpus & machine.allowed.cpus : CpuSet();
    for (const Core& core : topology.cores) {
      if (!core.cpus.intersects(homes[rank])) continue;
      costs.overlaps = !taken.insert(&core).second || costs.overlaps;
      of_node.insert(core.node);
      of_socket.insert(core.package);
      if (core.l3 >= 0) of_group.insert(core.l3);
      close += core.cpus.intersects(place & homes[rank]);
      quick += make_of(topology.cpu_kinds, core.kind) == make_of(topology.cpu_kinds, kinds - 1);
      quick_today += core.kind == kinds - 1;
      ++size;
    }
    if (!place.empty()) near.push_back(-std::min(close, even_share));
    nodes.push_back(static_cast<int>(of_node.size()));
    sockets.push_back(static_cast<int>(of_socket.size()));
    groups.push_back(static_cast<int>(of_group.size()));
    fast.push_back(kinds > 1 && make_of(topology.cpu_kinds, kinds - 1) > 0 ? -quick : 0);
    today.push_back(kinds > 1 && topology.cpu_kinds.back().divides_make ? -quick_today : 0);
    sizes.push_back(size);
  }
  const auto [least, most] = std::minmax_element(sizes.begin(), sizes.end());
  costs.smallest = *least;
  costs.largest = *most;
  costs.points = {{"cores near the GPU", near},  {"NUMA nodes", nodes}, {"sockets", sockets},
                  {"balance", {*most - *least}}, {"fast cores", fast},  {"L3 groups", groups},
                  {"fast today", today}};
  for (auto& [name, cost] : costs.points) std::sort(cost.begin(), cost.end(), std::greater<>());
  return costs;
}

}  // namespace zf
