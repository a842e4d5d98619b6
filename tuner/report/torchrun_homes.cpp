#include "report/torchrun_homes.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "base/format.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

constexpr std::array kModes{"node", "socket", "exclusive", "core-complex"};

/// A rank's GPU among those of its NUMA node.
struct Place {
  const NumaNode* node = nullptr;
  CpuSet allowed;           ///< of the node's CPUs
  std::size_t index = 0;    ///< ranks with a GPU on this node that come before
  std::size_t of_node = 1;  ///< GPUs on this node
};

/// A rank's home, or the reason why the mode gives it none.
struct HomeOrRefusal {
  CpuSet home;
  std::string refusal = {};
};

const NumaNode* node_of(const RankBinding& rank, const Topology& topology) {
  for (const NumaNode& node : topology.nodes) {
    if (rank.gpu && rank.gpu->node == node.id) return &node;
  }
  return nullptr;
}

Place place_of(const RankBinding& rank, const Plan& plan, const Topology& topology) {
  Place place{node_of(rank, topology), {}};
  if (place.node == nullptr) return place;
  place.allowed = place.node->cpus & plan.allocation.cpus;
  std::size_t of_ranks = 0;
  for (const RankBinding& other : plan.ranks) {
    if (node_of(other, topology) != place.node) continue;
    ++of_ranks;
    place.index += other.rank < rank.rank;
  }
  const auto here = std::count_if(topology.gpus.begin(), topology.gpus.end(),
                                  [&](const Gpu& gpu) { return gpu.usable && gpu.node == place.node->id; });
  place.of_node = std::max(of_ranks, static_cast<std::size_t>(here));
  return place;
}

/// Returns the package of a node's first allowed CPU.
std::optional<int> package_of(const CpuSet& allowed, const Topology& topology) {
  if (allowed.empty()) return std::nullopt;
  for (const Core& core : topology.cores) {
    if (core.cpus.contains(allowed.first())) return core.package;
  }
  return std::nullopt;
}

HomeOrRefusal socket_of(const Place& place, const Plan& plan, const Topology& topology) {
  const auto package = package_of(place.allowed, topology);
  HomeOrRefusal result;
  for (const NumaNode& node : topology.nodes) {
    const CpuSet allowed = node.cpus & plan.allocation.cpus;
    if (allowed.empty()) {
      return {{},
              format_text("no CPU of node {} is allowed, and it looks at the first one of each node",
                          node.id.os_index)};
    }
    if (package_of(allowed, topology) == package) result.home |= allowed;
  }
  return result;
}

HomeOrRefusal exclusive_share_of(const Place& place, const Topology& topology) {
  std::map<Pu, CpuSet> cores;  // by their first CPU
  for (const Core& core : topology.cores) {
    if (core.cpus.intersects(place.allowed)) cores[core.cpus.first()] = core.cpus & place.allowed;
  }
  const std::size_t each = cores.size() / place.of_node;
  const std::size_t larger = cores.size() % place.of_node;
  if (each == 0) {
    return {{},
            format_text("{} of node {} {} too few for {}", print_count(cores.size(), "allowed core"),
                        place.node->id.os_index, cores.size() == 1 ? "is" : "are",
                        print_count(place.of_node, "GPU"))};
  }
  const std::size_t begin = place.index * each + std::min(place.index, larger);
  const std::size_t end = begin + each + (place.index < larger ? 1 : 0);
  HomeOrRefusal result;
  std::size_t next = 0;
  for (const auto& [first, cpus] : cores) {
    if (next >= begin && next < end) result.home |= cpus;
    ++next;
  }
  return result;
}

HomeOrRefusal core_complex_of(const Place& place, const Topology& topology) {
  std::vector<std::pair<CpuSet, Pu>> groups;  // allowed CPUs, and the first CPU
  for (const L3Group& group : topology.l3_groups) {
    if (group.cpus.intersects(place.allowed))
      groups.emplace_back(group.cpus & place.allowed, group.cpus.first());
  }
  if (groups.empty()) return {{}, "no L3 cache is known"};
  std::sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) {
    return a.first.size() != b.first.size() ? a.first.size() > b.first.size() : a.second < b.second;
  });
  return {groups[place.index % groups.size()].first};
}

HomeOrRefusal home_by(std::string_view mode, const RankBinding& rank, const Plan& plan,
                      const Topology& topology) {
  const Place place = place_of(rank, plan, topology);
  if (place.node == nullptr)
    return {{}, format_text("the GPU of rank {}, or its NUMA node, is not known", rank.rank)};
  if (place.allowed.empty()) {
    return {{},
            format_text("no CPU of node {}, where the GPU of rank {} is, is allowed", place.node->id.os_index,
                        rank.rank)};
  }
  if (mode == "socket") return socket_of(place, plan, topology);
  if (mode == "exclusive") return exclusive_share_of(place, topology);
  if (mode == "core-complex") return core_complex_of(place, topology);
  return {place.allowed};
}

}  // namespace

std::vector<LauncherHomes> homes_by_torchrun(const Plan& plan, const Topology& topology) {
  std::vector<LauncherHomes> results;
  for (const char* const mode : kModes) {
    LauncherHomes one{format_text("torchrun --numa-binding={}", mode)};
    for (const RankBinding& rank : plan.ranks) {
      HomeOrRefusal given = home_by(mode, rank, plan, topology);
      one.homes.push_back(std::move(given.home));
      one.refusal = std::move(given.refusal);
      if (one.refusal.empty()) continue;
      one.homes.clear();
      break;
    }
    const auto same = std::find_if(results.begin(), results.end(), [&](const LauncherHomes& other) {
      return other.homes == one.homes && other.refusal == one.refusal;
    });
    if (same == results.end()) {
      results.push_back(std::move(one));
    } else {
      same->launcher += format_text("|{}", mode);
    }
  }
  return results;
}

}  // namespace zf
