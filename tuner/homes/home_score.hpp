// How good a division of the cores is: what an expert looks at, in order of importance. Pure.
#pragma once

#include <vector>

#include "homes/domains.hpp"

namespace zf {

/// The cores of each rank, as indexes into Domains::cores.
using Division = std::vector<std::vector<int>>;

/// One list of numbers per wish; less is better. In each list the worst rank comes first, because ranks wait
/// for the slowest one.
struct HomeScore {
  /// Minus the cores near the rank's GPU. Ranks without a GPU, and ranks whose place is no more than a
  /// package, have no entry.
  std::vector<int> far_from_place;
  /// Minus the cores in the package of the rank's GPU, up to an even share: in a package, one core more does
  /// not bring a rank nearer. Ranks with a GPU only.
  std::vector<int> far_from_package;
  std::vector<int> nodes;  ///< NUMA nodes that the rank's cores belong to
  std::vector<int> packages;
  std::vector<int> l3_groups;
  std::vector<int> fast_cores;  ///< minus the cores of the fastest kind, then of the two fastest, and so on
  int imbalance = 0;            ///< cores of the largest home minus those of the smallest
  std::vector<int> runs;        ///< runs of neighbouring cores

  /// Returns whether this division keeps a rank out of a node or a package and no rank farther from its GPU.
  /// Only that justifies homes that differ by two cores.
  bool spares_nodes_of(const HomeScore& other) const;
  bool operator<(const HomeScore& other) const;
};

HomeScore score_of(const Domains& domains, const Division& division);

}  // namespace zf
