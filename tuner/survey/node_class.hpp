// The classes of a cluster: what most nodes of one kind have in common. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "survey/node_record.hpp"

namespace zf {

/// The bandwidth that nodes of a class have.
struct ClassBandwidth {
  double median_bytes_per_s = 0;
  double distance = 0;  ///< an outlier is further away than this fraction of the median; 0: too few nodes
  int nodes = 0;        ///< that were measured
  bool operator==(const ClassBandwidth&) const = default;
};

struct ClassMemory {
  Node node;
  std::vector<std::uint64_t> memory_bytes;  ///< the sizes that are usual, the most frequent first
  std::optional<ClassBandwidth> bandwidth = {};
};

struct NodeClass {
  MachineClass machine;
  std::optional<GpuPlaces> gpus = {};
  int nodes = 0;
  std::string names;  ///< folded
  std::vector<ClassMemory> numa;
  std::optional<ClassBandwidth> bandwidth = {};  ///< of all NUMA nodes at once
  std::string typical = {};  ///< the node to tune: none is nearer to the median; none is odd
  std::string slowest = {};  ///< of those that are not odd; empty: none was measured
  double slowest_share = 0;  ///< its bandwidth, as a share of the median
};

/// What the caller accepts as a class.
struct ClassRules {
  std::vector<std::string> accepted = {};    ///< the first 8 digits or more of CLASS, or of CLASS+GPUS
  std::optional<std::size_t> at_least = {};  ///< nodes of a class; absent: 1 in 100 of all, but 4 or more
};

/// Returns CLASS, or CLASS+GPUS with the fingerprint of the places of GPUs, in full.
std::string name_of(const MachineClass& machine, const std::optional<GpuPlaces>& gpus);

/// Returns the classes, those with most nodes first. A group is all nodes of one machine class with the same
/// places of GPUs. It is a class if
/// - the caller accepts it, or
/// - it has enough nodes, or
/// - no group has more nodes, or
/// - ClassRules::at_least is absent, and no group has three times as many nodes.
/// The nodes of other groups are odd.
std::vector<NodeClass> classes_of(const std::vector<NodeRecord>& records, const ClassRules& rules);

/// Returns whether two sizes of memory are alike: they differ by at most 2 % or 512 MiB. Firmware and kernel
/// reserve a varying part.
bool memory_is_alike(std::uint64_t a, std::uint64_t b);

/// Returns the class that a node belongs to; null if it belongs to none.
template <class Classes>
auto* class_of(const NodeRecord& record, Classes& classes) {
  const auto found = std::find_if(classes.begin(), classes.end(), [&](const NodeClass& one) {
    return name_of(one.machine, one.gpus) == name_of(record.machine, record.gpus);
  });
  return found == classes.end() ? nullptr : &*found;
}

}  // namespace zf
