#include "homes/homes.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cassert>
#include <numeric>
#include <tuple>

#include "base/error.hpp"
#include "homes/core_cuts.hpp"
#include "homes/home_shares.hpp"

namespace zf {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// The usable cores of one NUMA node, in topological order.
struct Room {
  std::optional<Node> node;
  int package = 0;
  std::vector<HomeCore> cores;
};

/// Nodes with at least one usable core, in topological order.
std::vector<Room> rooms_of(const Topology& topology, const CpuSet& allowed) {
  std::vector<Room> rooms;
  for (const Core& core : topology.cores) {
    const CpuSet cpus = core.cpus & allowed;
    if (cpus.empty()) continue;
    auto room = std::find_if(rooms.begin(), rooms.end(), [&](const Room& r) { return r.node == core.node; });
    if (room == rooms.end()) room = rooms.insert(rooms.end(), Room{core.node, core.package, {}});
    room->cores.push_back({cpus, core.node, core.l3, core.kind});
  }
  return rooms;
}

/// The package that a rank wishes: its own word, or that of its node.
std::optional<int> wished_package(const Topology& topology, const RankWish& wish) {
  if (wish.package || !wish.near) return wish.package;
  const auto core = std::find_if(topology.cores.begin(), topology.cores.end(),
                                 [&](const Core& c) { return c.node == wish.near; });
  return core == topology.cores.end() ? std::nullopt : std::optional(core->package);
}

/// Wishes as indexes of rooms. A wish for a package, or for a node without a usable core, becomes the room of
/// that package that has the most cores for each of its wishers; where there is none, the wish is dropped.
std::vector<std::optional<int>> room_wishes(const Topology& topology, const std::vector<Room>& rooms,
                                            const std::vector<RankWish>& wishes) {
  std::vector<std::optional<int>> result(wishes.size());
  std::vector<int> wishers(rooms.size());
  const auto grant = [&](std::size_t rank, int room) {
    result[rank] = room;
    ++wishers[at(room)];
  };

  for (std::size_t rank = 0; rank < wishes.size(); ++rank) {
    if (!wishes[rank].near) continue;
    const auto room =
        std::find_if(rooms.begin(), rooms.end(), [&](const Room& r) { return r.node == wishes[rank].near; });
    if (room != rooms.end()) grant(rank, static_cast<int>(room - rooms.begin()));
  }
  for (std::size_t rank = 0; rank < wishes.size(); ++rank) {
    if (result[rank]) continue;
    const auto package = wished_package(topology, wishes[rank]);
    if (!package) continue;
    int best = -1;
    const auto cores_per_wisher = [&](int room) {
      return static_cast<double>(rooms[at(room)].cores.size()) / (wishers[at(room)] + 1);
    };
    for (int room = 0; room < static_cast<int>(rooms.size()); ++room) {
      if (rooms[at(room)].package != *package) continue;
      if (best < 0 || cores_per_wisher(room) > cores_per_wisher(best)) best = room;
    }
    if (best >= 0) grant(rank, best);
  }
  return result;
}

/// A rank's pieces of a room lie where the rest of the rank lies: those of ranks that live in earlier rooms
/// first. This is the mean room of a rank's cores.
double middle(const std::vector<Share>& shares) {
  double sum = 0;
  int cores = 0;
  for (const Share& share : shares) {
    sum += static_cast<double>(share.room) * share.cores;
    cores += share.cores;
  }
  return sum / cores;
}

/// Turns counts into cores, room by room.
std::vector<Home> cut_rooms(const std::vector<Room>& rooms, const std::vector<std::vector<Share>>& shares) {
  struct Piece {
    std::size_t rank;
    std::size_t share;
  };
  std::vector<std::vector<std::vector<HomeCore>>> cores(shares.size());
  for (std::size_t rank = 0; rank < shares.size(); ++rank) cores[rank].resize(shares[rank].size());

  for (int room = 0; room < static_cast<int>(rooms.size()); ++room) {
    std::vector<Piece> pieces;
    for (std::size_t rank = 0; rank < shares.size(); ++rank) {
      for (std::size_t share = 0; share < shares[rank].size(); ++share) {
        if (shares[rank][share].room == room) pieces.push_back({rank, share});
      }
    }
    std::stable_sort(pieces.begin(), pieces.end(),
                     [&](Piece a, Piece b) { return middle(shares[a.rank]) < middle(shares[b.rank]); });
    std::vector<int> sizes;
    for (const Piece piece : pieces) sizes.push_back(shares[piece.rank][piece.share].cores);
    std::vector<int> groups;
    std::vector<int> kinds;
    for (const HomeCore& core : rooms[at(room)].cores) {
      groups.push_back(core.l3);
      kinds.push_back(core.kind);
    }

    const auto cuts = cut_cores(groups, kinds, sizes);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      for (const int core : cuts[i])
        cores[pieces[i].rank][pieces[i].share].push_back(rooms[at(room)].cores[at(core)]);
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

/// Ranks without a wish take their homes in topological order of the first core.
void sort_unwished(std::vector<Home>& homes, const std::vector<std::optional<int>>& wishes,
                   const Topology& topology) {
  std::vector<std::size_t> ranks;
  std::vector<Home> free;
  for (std::size_t rank = 0; rank < homes.size(); ++rank) {
    if (wishes[rank]) continue;
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

/// The nodes with memory among the home's own; else every allowed node that has both CPUs and memory; else of
/// those without CPUs, which then are all that the user allows, the ones near the home; else every allowed
/// one with memory, else every allowed one. Where no node has a size (a description that gives none), sizes
/// are unknown and not nought: every node then counts as one with memory.
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
                           const std::vector<RankWish>& wishes) {
  assert(!wishes.empty());
  const std::vector<Room> rooms = rooms_of(topology, allowed.cpus);
  std::vector<NodeRoom> counts;
  std::size_t total = 0;
  for (const Room& room : rooms) {
    counts.push_back({static_cast<int>(room.cores.size()), room.package});
    total += room.cores.size();
  }
  if (total < wishes.size()) {
    throw Error(Exit::infeasible,
                fmt::format("{} ranks need at least {} cores, and {} {} allowed here", wishes.size(),
                            wishes.size(), total, total == 1 ? "core is" : "cores are"),
                total == 0 ? "allow CPUs of this machine"
                           : fmt::format("{} {} would fit: --ranks {}, or allow more cores", total,
                                         total == 1 ? "rank" : "ranks", total));
  }

  const std::vector<std::optional<int>> near = room_wishes(topology, rooms, wishes);
  std::vector<Home> homes = cut_rooms(rooms, shares_of(counts, near));
  sort_unwished(homes, near, topology);
  for (Home& home : homes) home.mems = mems_of(home, topology, allowed.mems);
  return homes;
}

}  // namespace zf
