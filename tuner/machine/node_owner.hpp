// Which NUMA node a core belongs to, where several nodes claim it. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/id_set.hpp"

namespace zf {

/// A node with the CPUs it is local to, which is not yet the CPUs that belong to it: HBM, CXL and GPU memory
/// have no CPUs in the kernel's eyes, yet they are local to some.
struct NodeLocality {
  Node id;
  CpuSet local_cpus;
  std::string subtype;  ///< "MCDRAM", "HBM", "NVM", …; empty or "DRAM" for plain memory
};

/// The index of the node that a core belongs to, -1: none is local to it. Plain memory before HBM before the
/// rest; then the closest (fewest CPUs); then the lowest number, since the kernel numbers nodes with CPUs
/// first.
int owner_of(const CpuSet& core, const std::vector<NodeLocality>& nodes);

}  // namespace zf
