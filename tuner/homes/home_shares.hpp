// How many cores of which node each rank gets: homes_of() counts here first and names the cores later. Pure.
#pragma once

#include <optional>
#include <vector>

namespace zf {

/// The usable cores of a NUMA node. Its position in a list of nodes is its topological position.
struct NodeCapacity {
  int cores = 0;
  int package = 0;
};

/// A rank's share of one node.
struct Share {
  int node = 0;  ///< index into the nodes
  int cores = 0;
  bool operator==(const Share&) const = default;
};

/// Returns one list of shares per rank: the rank's own node first (the preferred one, else the one with most
/// of its cores), then the others from near to far. `preferences` holds the index of a node, or nothing, for
/// every rank.
///
/// Every core is given to a rank, and ranks differ by at most one core. Ranks that prefer the same node get
/// equal parts of it, and of what their package has left. As many as possible of the ranks without a
/// preference lie inside one node. The others are put together from what is left, in one package if it has
/// enough. Preconditions: at least one rank, and no more ranks than cores.
std::vector<std::vector<Share>> node_shares(const std::vector<NodeCapacity>& nodes,
                                            const std::vector<std::optional<int>>& preferences);

}  // namespace zf
