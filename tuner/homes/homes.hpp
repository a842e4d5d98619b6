// One home per rank: disjoint, whole cores, balanced, near the rank's GPU. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/id_set.hpp"
#include "os/allowed.hpp"
#include "plan/rank_gpu.hpp"
#include "topology/topology.hpp"

namespace zf {

/// A core with only its allowed PUs.
struct HomeCore {
  CpuSet cpus;  ///< never empty
  std::optional<Node> node;
  int l3 = -1;
  int kind = 0;
  int package = 0;
  int make = 0;  ///< make_of() its kind
  bool operator==(const HomeCore&) const = default;
};

/// The cores and the memory that one rank owns.
struct Home {
  /// The cores near the rank's GPU first, then those of its package, of its own node, and from near to far;
  /// in topological order.
  std::vector<HomeCore> cores;
  NodeSet mems;           ///< the allowed nodes with memory that its cores belong to; see mems_of
  bool shared = false;    ///< fewer than 2 cores: training and optimizer must share
  bool at_quota = false;  ///< the cgroup's CPU quota keeps fewer threads busy than the home has PUs; SMT
                          ///< siblings are then left unused
  std::optional<RankGpu> gpu = {};  ///< the rank's GPU; absent if unknown
  /// The home, if neighbours share its CPUs (shared_homes.hpp); else empty. All threads of the rank may run
  /// on all of these. `cores` then only counts the threads that the quota pays for.
  CpuSet shared_cpus = {};
  CpuSet cpus() const;
};

/// Returns the nodes where a home's memory should lie: its own nodes among those allowed; if these have no
/// memory, the other nodes of its packages. Memory without CPUs (HBM, CXL, GPU memory) is used only if the
/// user allows nothing else (--mems selects it as a memory tier), and then the nearest. If
/// Topology::nodes_contradict, all allowed nodes with memory are its nodes.
NodeSet mems_of(const Home& home, const Topology& topology, const NodeSet& allowed);

/// The place where a rank should live: the first of these that has an allowed core. If all are absent, any
/// place will do.
struct Preference {
  std::optional<Node> near = {};
  std::optional<int> package = {};  ///< OS index; used if `near` is absent or has no allowed core
  CpuSet cpus = {};                 ///< the CPUs near the rank's GPU; they come before `near`
};

struct FoundHomes {
  std::vector<Home> homes;  ///< by rank
  std::string note;         ///< not empty: the search ended early, and other homes may be better
};

/// Returns one home per preference. Every allowed core is in one. Homes differ by at most one core, or by two
/// if that is better in a point above the equal sizes (home_points.hpp); a rank of fewer than 8 cores gives
/// none away for that. By these points the homes are the best that find_division() finds. Ranks with one
/// place get their homes in topological order. The same input gives the same homes. Throws Error(infeasible)
/// if there are more ranks than allowed cores, and says how many would fit. Precondition: at least one
/// preference.
FoundHomes find_homes(const Topology& topology, const Allowed& allowed,
                      const std::vector<Preference>& preferences);

/// Returns the homes of find_homes().
std::vector<Home> homes_of(const Topology& topology, const Allowed& allowed,
                           const std::vector<Preference>& preferences);

}  // namespace zf
