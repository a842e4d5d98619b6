// How many cores of which node each rank gets: the counting behind homes_of, before any core is named. Pure.
#pragma once

#include <optional>
#include <vector>

namespace zf {

/// A NUMA node that has usable cores. Its position in a list of rooms is its topological position.
struct NodeRoom {
  int cores = 0;
  int package = 0;
};

/// A rank's part of one node.
struct Share {
  int room = 0;  ///< index into the rooms
  int cores = 0;
  bool operator==(const Share&) const = default;
};

/// One list of shares per rank, the rank's own room first (the wished one, else where most of its cores are),
/// then the others from near to far. `wishes` holds the index of a room, or nothing, for every rank.
///
/// Every core is given away, ranks differ by at most one core. Ranks that wish the same room get equal parts
/// of it, and of what their package has left. Of the ranks without a wish as many as possible lie inside one
/// room; the others are put together from what is left, in one package where that holds enough.
/// Preconditions: at least one rank, and no more ranks than cores.
std::vector<std::vector<Share>> shares_of(const std::vector<NodeRoom>& rooms,
                                          const std::vector<std::optional<int>>& wishes);

}  // namespace zf
