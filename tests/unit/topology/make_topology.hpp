// Topologies made by hand, so that tests of pure functions do not need hwloc.
#pragma once

#include <string_view>
#include <vector>

#include "base/cpu_list.hpp"
#include "os/allowed.hpp"
#include "topology/topology.hpp"

namespace zf {

/// The way in which the OS numbers siblings: core k is {2k, 2k+1} (adjacent), or {k, k + cores}
/// (interleaved).
enum class Numbering { adjacent, interleaved };

struct MachineShape {
  int packages = 1;
  int nodes_per_package = 1;
  int l3_per_node = 1;
  int cores_per_l3 = 1;
  int pus_per_core = 1;
  Numbering numbering = Numbering::adjacent;
  int node_id_step = 1;  ///< 8: nodes 0, 8, 16, as POWER numbers them
};

inline Topology make_topology(const MachineShape& shape) {
  Topology topology;
  topology.source = "made by hand";
  topology.is_this_machine = false;
  topology.packages = shape.packages;
  const int nodes = shape.packages * shape.nodes_per_package;
  const int cores = nodes * shape.l3_per_node * shape.cores_per_l3;
  int next_core = 0;
  for (int n = 0; n < nodes; ++n) {
    NumaNode node;
    node.id = Node{n * shape.node_id_step};
    node.memory_bytes = 256ULL << 30;
    for (int g = 0; g < shape.l3_per_node; ++g) {
      L3Group group;
      group.cache_bytes = 32U << 20;
      for (int c = 0; c < shape.cores_per_l3; ++c, ++next_core) {
        Core core;
        for (int t = 0; t < shape.pus_per_core; ++t) {
          core.cpus.insert(Pu{shape.numbering == Numbering::adjacent ? next_core * shape.pus_per_core + t
                                                                     : next_core + t * cores});
        }
        core.package = n / shape.nodes_per_package;
        core.node = node.id;
        core.l3 = static_cast<int>(topology.l3_groups.size());
        group.cpus |= core.cpus;
        topology.cores.push_back(core);
      }
      node.cpus |= group.cpus;
      topology.l3_groups.push_back(group);
    }
    topology.cpus |= node.cpus;
    topology.nodes.push_back(node);
  }
  topology.complete_cpus = topology.allowed_cpus = topology.cpus;
  for (const NumaNode& node : topology.nodes) topology.allowed_nodes.insert(node.id);
  return topology;
}

/// Returns the machine with cores of these kinds, slow (0) or fast (1), and again from the first.
inline Topology with_kinds(Topology topology, const std::vector<int>& kinds) {
  topology.cpu_kinds.resize(2);
  for (std::size_t core = 0; core < topology.cores.size(); ++core) {
    const int kind = kinds[core % kinds.size()];
    topology.cores[core].kind = kind;
    topology.cpu_kinds[static_cast<std::size_t>(kind)].cpus |= topology.cores[core].cpus;
  }
  return topology;
}

/// Returns one L3 group with a core of each of these kinds.
inline Topology one_l3_group(const std::vector<int>& kinds) {
  return with_kinds(make_topology({.cores_per_l3 = static_cast<int>(kinds.size())}), kinds);
}

inline NodeSet node_ids(const Topology& topology) {
  NodeSet ids;
  for (const NumaNode& node : topology.nodes) ids.insert(node.id);
  return ids;
}

/// Allows all of the machine's memory, and these CPUs ("": all of them).
inline Allowed make_allowed(const Topology& topology, std::string_view cpus = "") {
  Allowed allowed;
  allowed.cpus = cpus.empty() ? topology.cpus : parse_cpu_list(cpus, "test");
  allowed.mems = node_ids(topology);
  return allowed;
}

/// Returns two packages of 24 cores, each with two L3 groups: the machine of a real sparse Slurm mask.
inline Topology slurm_sparse_machine() {
  return make_topology({.packages = 2, .l3_per_node = 2, .cores_per_l3 = 12});
}
inline constexpr std::string_view kSlurmSparseMask = "0,4-11,21-26,30-46";

}  // namespace zf
