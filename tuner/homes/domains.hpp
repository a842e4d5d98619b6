// The usable cores of a machine, grouped by what tells them apart when homes are cut. Pure.
#pragma once

#include <optional>
#include <vector>

#include "homes/homes.hpp"
#include "topology/topology.hpp"

namespace zf {

/// The usable cores that have the same package, the same NUMA node and the same GPUs near them. A package has
/// several NUMA nodes, a NUMA node can have several packages (node interleaving), and a GPU can be near a
/// part of a node (one L3 group of an MI250X node).
struct Domain {
  std::optional<Node> node;
  int package = 0;
  int first = 0;  ///< index of its first core in Domains::cores
  int size = 0;
};

/// Returns true if both have the same NUMA node and the same package.
bool in_same_node(const Domain& a, const Domain& b);

/// Usable cores that are alike in every point but neighbourhood: of one domain, one L3 group and one kind.
struct CoreBatch {
  int domain = 0;  ///< index into Domains::all
  int node = 0;    ///< the nodes, packages and L3 groups of usable cores are numbered from 0
  int package = 0;
  int l3 = -1;  ///< -1: none
  int kind = 0;
  int make = 0;
  std::vector<int> cores = {};  ///< ascending indexes into Domains::cores
};

struct Domains {
  std::vector<HomeCore> cores;  ///< with their allowed PUs only; topological order, domain by domain
  std::vector<Domain> all;      ///< topological order
  std::vector<CoreBatch> batches;
  std::vector<int> batch_of;  ///< by core
  /// Says for each rank and domain whether the domain is in the rank's place. Empty if any place will do.
  std::vector<std::vector<bool>> near;
  std::vector<std::vector<bool>> in_package;  ///< the same for the packages of the rank's place
  /// Says for each rank whether its place is no more than a package: none of the CPUs that it prefers and no
  /// core of its node is allowed.
  std::vector<bool> is_package_only;

  int ranks() const { return static_cast<int>(near.size()); }
  /// Returns whether the rank has a place that is less than a package.
  bool has_near(int rank) const;
  /// Returns whether two ranks have the same place, so that they could change homes.
  bool in_one_place(int rank, int other) const;
};

/// Returns the domains of the allowed cores. The place of a rank is the first of these that has an allowed
/// core: the CPUs that it prefers, its node, its package.
Domains domains_of(const Topology& topology, const CpuSet& allowed,
                   const std::vector<Preference>& preferences);

/// Makes the batches anew, after cores have changed.
void add_batches(Domains& domains);

}  // namespace zf
