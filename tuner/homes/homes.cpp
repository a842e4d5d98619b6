#include "homes/homes.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cassert>
#include <numeric>
#include <tuple>

#include "base/error.hpp"
#include "homes/core_cuts.hpp"
#include "homes/home_shares.hpp"
#include "homes/index.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

/// The usable cores of one NUMA node, in topological order.
struct UsableNode {
  std::optional<Node> id;
  int package = 0;
  std::vector<HomeCore> cores;
};

/// Returns the nodes that have a usable core, in topological order.
std::vector<UsableNode> usable_nodes(const Topology& topology, const CpuSet& allowed) {
  std::vector<UsableNode> nodes;
  for (const Core& core : topology.cores) {
    const CpuSet cpus = core.cpus & allowed;
    if (cpus.empty()) continue;
    auto node =
        std::find_if(nodes.begin(), nodes.end(), [&](const UsableNode& r) { return r.id == core.node; });
    if (node == nodes.end()) node = nodes.insert(nodes.end(), UsableNode{core.node, core.package, {}});
    node->cores.push_back({cpus, core.node, core.l3, core.kind});
  }
  return nodes;
}

/// Returns the package that a rank prefers: the one it names, or that of its node.
std::optional<int> preferred_package(const Topology& topology, const Preference& preference) {
  if (preference.package || !preference.near) return preference.package;
  const auto core = std::find_if(topology.cores.begin(), topology.cores.end(),
                                 [&](const Core& c) { return c.node == preference.near; });
  return core == topology.cores.end() ? std::nullopt : std::optional(core->package);
}

/// Returns preferences as indexes of nodes. A preference for a package, or for a node without a usable core,
/// becomes the node of that package that has the most cores for each rank that claims it. If the package has
/// no such node, the preference is dropped.
std::vector<std::optional<int>> preferred_nodes(const Topology& topology,
                                                const std::vector<UsableNode>& nodes,
                                                const std::vector<Preference>& preferences) {
  std::vector<std::optional<int>> result(preferences.size());
  std::vector<int> claimants(nodes.size());
  const auto grant = [&](std::size_t rank, int node) {
    result[rank] = node;
    ++claimants[at(node)];
  };

  for (std::size_t rank = 0; rank < preferences.size(); ++rank) {
    if (!preferences[rank].near) continue;
    const auto node = std::find_if(nodes.begin(), nodes.end(),
                                   [&](const UsableNode& r) { return r.id == preferences[rank].near; });
    if (node != nodes.end()) grant(rank, static_cast<int>(node - nodes.begin()));
  }
  for (std::size_t rank = 0; rank < preferences.size(); ++rank) {
    if (result[rank]) continue;
    const auto package = preferred_package(topology, preferences[rank]);
    if (!package) continue;
    int best = -1;
    const auto cores_per_claimant = [&](int node) {
      return static_cast<double>(nodes[at(node)].cores.size()) / (claimants[at(node)] + 1);
    };
    for (int node = 0; node < static_cast<int>(nodes.size()); ++node) {
      if (nodes[at(node)].package != *package) continue;
      if (best < 0 || cores_per_claimant(node) > cores_per_claimant(best)) best = node;
    }
    if (best >= 0) grant(rank, best);
  }
  return result;
}

/// Returns the mean node of a rank's cores. Inside a node the pieces are sorted by it, so that a rank's piece
/// lies on the side where the rest of the rank lies.
double mean_node(const std::vector<Share>& shares) {
  double sum = 0;
  int cores = 0;
  for (const Share& share : shares) {
    sum += static_cast<double>(share.node) * share.cores;
    cores += share.cores;
  }
  return sum / cores;
}

/// Turns the counts into cores, node by node.
std::vector<Home> cut_nodes(const std::vector<UsableNode>& nodes,
                            const std::vector<std::vector<Share>>& shares) {
  struct Piece {
    std::size_t rank;
    std::size_t share;
  };
  std::vector<std::vector<std::vector<HomeCore>>> cores(shares.size());
  for (std::size_t rank = 0; rank < shares.size(); ++rank) cores[rank].resize(shares[rank].size());

  for (int node = 0; node < static_cast<int>(nodes.size()); ++node) {
    std::vector<Piece> pieces;
    for (std::size_t rank = 0; rank < shares.size(); ++rank) {
      for (std::size_t share = 0; share < shares[rank].size(); ++share) {
        if (shares[rank][share].node == node) pieces.push_back({rank, share});
      }
    }
    std::stable_sort(pieces.begin(), pieces.end(),
                     [&](Piece a, Piece b) { return mean_node(shares[a.rank]) < mean_node(shares[b.rank]); });
    std::vector<int> sizes;
    for (const Piece piece : pieces) sizes.push_back(shares[piece.rank][piece.share].cores);
    std::vector<int> groups;
    std::vector<int> kinds;
    for (const HomeCore& core : nodes[at(node)].cores) {
      groups.push_back(core.l3);
      kinds.push_back(core.kind);
    }

    const auto cuts = cut_cores(groups, kinds, sizes);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      for (const int core : cuts[i])
        cores[pieces[i].rank][pieces[i].share].push_back(nodes[at(node)].cores[at(core)]);
    }
  }

  std::vector<Home> homes(shares.size());
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    for (const auto& part : cores[rank])
      homes[rank].cores.insert(homes[rank].cores.end(), part.begin(), part.end());
    homes[rank].shared = homes[rank].cores.size() < 2;
  }
  return homes;
}

/// Sorts the homes of ranks without a preference by the topological order of their first cores.
void sort_without_preference(std::vector<Home>& homes, const std::vector<std::optional<int>>& preferences,
                             const Topology& topology) {
  std::vector<std::size_t> ranks;
  std::vector<Home> free;
  for (std::size_t rank = 0; rank < homes.size(); ++rank) {
    if (preferences[rank]) continue;
    ranks.push_back(rank);
    free.push_back(homes[rank]);
  }
  const auto position = [&](const Home& home) {
    const Pu first = home.cores.front().cpus.first();
    return std::find_if(topology.cores.begin(), topology.cores.end(),
                        [&](const Core& core) { return core.cpus.contains(first); });
  };
  std::sort(free.begin(), free.end(),
            [&](const Home& a, const Home& b) { return position(a) < position(b); });
  for (std::size_t i = 0; i < ranks.size(); ++i) homes[ranks[i]] = free[i];
}

}  // namespace

CpuSet Home::cpus() const {
  std::vector<Pu> pus;
  for (const HomeCore& core : cores) pus.insert(pus.end(), core.cpus.begin(), core.cpus.end());
  return CpuSet(std::move(pus));
}

/// Returns the first of these sets that is not empty, all of them allowed nodes with memory: the home's own
/// nodes; nodes that have CPUs; nodes near the home (here the user allows only nodes without CPUs); any node.
/// If all are empty, returns every allowed node. If no node has a size (a description that gives none), the
/// sizes are unknown rather than zero, and every node counts as one with memory.
NodeSet mems_of(const Home& home, const Topology& topology, const NodeSet& allowed) {
  NodeSet own;
  NodeSet with_cpus;
  NodeSet near;
  NodeSet with_memory;
  const bool sizes_known = std::any_of(topology.nodes.begin(), topology.nodes.end(),
                                       [](const NumaNode& node) { return node.memory_bytes > 0; });
  for (const NumaNode& node : topology.nodes) {
    if ((sizes_known && node.memory_bytes == 0) || !allowed.contains(node.id)) continue;
    with_memory.insert(node.id);
    if (node.local_cpus.intersects(home.cpus())) near.insert(node.id);
    if (node.is_cpuless()) continue;
    with_cpus.insert(node.id);
    const auto lives_there = [&](const HomeCore& core) { return core.node == node.id; };
    if (std::any_of(home.cores.begin(), home.cores.end(), lives_there)) own.insert(node.id);
  }
  for (const NodeSet& mems : {own, with_cpus, near, with_memory}) {
    if (!mems.empty()) return mems;
  }
  return allowed;
}

std::vector<Home> homes_of(const Topology& topology, const Allowed& allowed,
                           const std::vector<Preference>& preferences) {
  assert(!preferences.empty());
  const std::vector<UsableNode> nodes = usable_nodes(topology, allowed.cpus);
  std::vector<NodeCapacity> counts;
  std::size_t total = 0;
  for (const UsableNode& node : nodes) {
    counts.push_back({static_cast<int>(node.cores.size()), node.package});
    total += node.cores.size();
  }
  if (total < preferences.size()) {
    throw Error(
        Exit::infeasible,
        fmt::format("{} {} at least {}, but {} {} allowed here", print_count(preferences.size(), "rank"),
                    preferences.size() == 1 ? "needs" : "need", print_count(preferences.size(), "core"),
                    print_count(total, "core"), total == 1 ? "is" : "are"),
        total == 0 ? "allow CPUs of this machine"
                   : fmt::format("give --ranks {}, or allow more cores", total));
  }

  const std::vector<std::optional<int>> near = preferred_nodes(topology, nodes, preferences);
  std::vector<Home> homes = cut_nodes(nodes, node_shares(counts, near));
  sort_without_preference(homes, near, topology);
  for (Home& home : homes) home.mems = mems_of(home, topology, allowed.mems);
  return homes;
}

}  // namespace zf
