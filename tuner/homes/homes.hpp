// One home per rank: disjoint, whole cores, balanced, near the rank's GPU. Pure.
#pragma once

#include <optional>
#include <vector>

#include "base/id_set.hpp"
#include "machine/topology.hpp"
#include "os/allowed.hpp"
#include "plan/plan.hpp"

namespace zf {

/// A core that may be used, cut down to its allowed PUs.
struct HomeCore {
  CpuSet cpus;  ///< never empty
  std::optional<Node> node;
  int l3 = -1;
  int kind = 0;
  bool operator==(const HomeCore&) const = default;
};

/// What one rank owns.
struct Home {
  std::vector<HomeCore> cores;  ///< topological order, the rank's own node first
  NodeSet mems;  ///< allowed nodes with memory that its cores belong to; where there are none, see mems_of
  bool shared = false;    ///< fewer than 2 cores: training and optimizer must share
  bool at_quota = false;  ///< the CPU quota keeps no more threads busy than there are cores: no siblings' too
  std::optional<RankGpu> gpu = {};  ///< the rank's, where it is known
  CpuSet cpus() const;
};

/// Where a home's memory should lie: of the `allowed` nodes its own. Memory without CPUs (HBM, CXL, GPU
/// memory) is taken only where the user allows nothing else, and then the nearest: --mems makes it a memory
/// tier.
NodeSet mems_of(const Home& home, const Topology& topology, const NodeSet& allowed);

/// Where a rank would like to live; both absent: anywhere.
struct RankWish {
  std::optional<Node> near = {};
  std::optional<int> package = {};  ///< OS index; for where `near` is absent or has no allowed core
};

/// One home per wish, in rank order. Every allowed core is used, counts differ by at most one core. As many
/// homes as possible lie inside one NUMA node; the others are put together in one package where the counts
/// allow it. Ranks that wish the same node share it evenly. Few L3 groups are torn between ranks, and
/// each gets its part of fast and of slow cores. Ranks
/// without a wish get their homes in topological order. Same input, same homes. Throws Error(infeasible) when
/// there are more ranks than allowed cores, saying how many would fit. Precondition: at least one wish.
std::vector<Home> homes_of(const Topology& topology, const Allowed& allowed,
                           const std::vector<RankWish>& wishes);

}  // namespace zf
