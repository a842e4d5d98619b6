// The usable cores of a machine, grouped by what tells them apart when homes are cut. Pure.
#pragma once

#include <optional>
#include <vector>

#include "homes/homes.hpp"
#include "machine/topology.hpp"

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

struct Domains {
  std::vector<HomeCore> cores;  ///< with their allowed PUs only; topological order, domain by domain
  std::vector<Domain> all;      ///< topological order
  /// Says for each rank and domain whether the domain is in the rank's place. Empty if any place will do.
  std::vector<std::vector<bool>> near;
  std::vector<std::vector<bool>> in_package;  ///< the same for the packages of the rank's place
  /// Says for each rank whether its place is no more than a package: none of the CPUs that it prefers and no
  /// core of its node is allowed.
  std::vector<bool> is_package_only;
};

/// Returns the domains of the allowed cores. The place of a rank is the first of these that has an allowed
/// core: the CPUs that it prefers, its node, its package.
Domains domains_of(const Topology& topology, const CpuSet& allowed,
                   const std::vector<Preference>& preferences);

/// Returns for each rank the domain of its place where it should live; nothing if any place will do. Among
/// several it is the one that has the most cores for each rank that claims it. Ranks with fewer domains to
/// choose from choose first.
std::vector<std::optional<int>> preferred_domains(const Domains& domains);

}  // namespace zf
