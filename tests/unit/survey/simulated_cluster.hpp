// A cluster made of a few machines: like nodes with noise, and some nodes with one fault each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "../topology/machines.hpp"
#include "base/format.hpp"
#include "survey/node_folder.hpp"

namespace zf {

/// What is wrong with a node, by hand. Each has words that must be in its finding (FaultyNode::words).
enum class FaultKind {
  cpu_offline,
  smt_off,
  numa_mode,
  less_memory,
  gpu_missing,
  gpu_elsewhere,
  slow_numa_node,
  slow_node,
  fast_node,
  other_model
};

struct FaultyNode {
  std::string name;
  FaultKind kind;
  std::string words;
};

struct SimulatedCluster {
  NodeFolder answers;
  std::vector<std::string> expected;  ///< all nodes
  std::vector<std::string> silent;
  std::vector<FaultyNode> faulty;
};

/// Returns the machine without these CPUs, which are offline.
inline Topology with_offline(Topology topology, const CpuSet& cpus) {
  topology.cpus = topology.cpus - cpus;
  for (NumaNode& node : topology.nodes) node.cpus = node.cpus - cpus;
  for (L3Group& group : topology.l3_groups) group.cpus = group.cpus - cpus;
  for (Core& core : topology.cores) core.cpus = core.cpus - cpus;
  std::erase_if(topology.cores, [](const Core& core) { return core.cpus.empty(); });
  return topology;
}

/// Returns the CPUs that are not the first of their core.
inline CpuSet siblings(const Topology& topology) {
  CpuSet all;
  for (const Core& core : topology.cores) all |= core.cpus - CpuSet{core.cpus.first()};
  return all;
}

/// Returns the machine in another NUMA mode: the last two of its nodes are one.
inline Topology with_merged_nodes(Topology topology) {
  NumaNode last = topology.nodes.back();
  topology.nodes.pop_back();
  topology.nodes.back().cpus |= last.cpus;
  topology.nodes.back().memory_bytes += last.memory_bytes;
  return topology;
}

class ClusterMaker {
 public:
  ClusterMaker(std::vector<Topology> machines, double noise, unsigned seed)
      : machines_(std::move(machines)), noise_(noise), random_(seed) {}

  /// Makes so many nodes of each machine, then gives some of them a fault, and lets three not answer.
  SimulatedCluster make(const std::vector<int>& nodes, const std::vector<FaultKind>& faults) {
    SimulatedCluster cluster;
    std::map<std::string, FaultyNode> faulty;
    for (std::size_t kind = 0; kind < nodes.size(); ++kind) {
      for (int i = 1; i <= nodes[kind]; ++i)
        cluster.expected.push_back(format_text("{}{:03}", static_cast<char>('a' + kind), i));
    }
    std::vector<std::string> drawn = cluster.expected;
    std::shuffle(drawn.begin(), drawn.end(), random_);
    for (int i = 0; i < 3; ++i) cluster.silent.push_back(take(drawn, [](const Topology&) { return true; }));
    for (const FaultKind fault : faults) {
      const std::string name = take(drawn, [&](const Topology& machine) { return can_have(machine, fault); });
      faulty[name] = {name, fault, ""};
    }
    for (const std::string& name : cluster.expected) {
      if (std::find(cluster.silent.begin(), cluster.silent.end(), name) != cluster.silent.end()) continue;
      const auto at = faulty.find(name);
      cluster.answers.records.push_back(record(name, at == faulty.end() ? nullptr : &at->second));
    }
    for (auto& entry : faulty) cluster.faulty.push_back(entry.second);
    std::sort(cluster.silent.begin(), cluster.silent.end());
    return cluster;
  }

 private:
  const Topology& machine_of(const std::string& name) const {
    return machines_[static_cast<std::size_t>(name.front() - 'a')];
  }

  template <class Suits>
  std::string take(std::vector<std::string>& names, Suits suits) {
    const auto at = std::find_if(names.begin(), names.end(),
                                 [&](const std::string& name) { return suits(machine_of(name)); });
    std::string name = *at;
    names.erase(at);
    return name;
  }

  static bool can_have(const Topology& machine, FaultKind fault) {
    const bool has_gpus = machine.pci_gpus && machine.pci_gpus->size() > 1;
    if (fault == FaultKind::smt_off) return machine.cpus.size() > machine.cores.size();
    if (fault == FaultKind::gpu_missing || fault == FaultKind::gpu_elsewhere) return has_gpus;
    if (fault == FaultKind::numa_mode || fault == FaultKind::slow_numa_node) return machine.nodes.size() > 1;
    return true;
  }

  /// Returns what the node says, and sets the words that its fault must be found by.
  NodeRecord record(const std::string& name, FaultyNode* faulty) {
    Topology machine = machine_of(name);
    double speed = 1;
    int slow = -1;
    const int node = machine.nodes[draw(machine.nodes.size())].id.os_index;
    if (faulty != nullptr) {
      std::string& words = faulty->words;
      switch (faulty->kind) {
        case FaultKind::cpu_offline: {
          const Pu cpu = *(machine.cpus.begin() + static_cast<std::ptrdiff_t>(draw(machine.cpus.size())));
          machine = with_offline(std::move(machine), {cpu});
          words = format_text("CPU {} is offline", cpu.os_index);
          break;
        }
        case FaultKind::smt_off:
          machine = with_offline(std::move(machine), siblings(machine_of(name)));
          words = "SMT is off";
          break;
        case FaultKind::numa_mode:
          machine = with_merged_nodes(std::move(machine));
          words = "the firmware's NUMA mode differs";
          break;
        case FaultKind::less_memory:
          for (NumaNode& one : machine.nodes) {
            if (one.id.os_index == node) one.memory_bytes = one.memory_bytes / 8 * 7;
          }
          words = format_text("NUMA node {} has 224 GiB of memory", node);
          break;
        case FaultKind::gpu_missing:
          machine.pci_gpus->erase(machine.pci_gpus->begin());
          words = "and its class has";
          break;
        case FaultKind::gpu_elsewhere:
          machine.pci_gpus->back().node.reset();
          words = "on no known node, and its class has";
          break;
        case FaultKind::slow_numa_node:
          slow = node;
          words = format_text("NUMA node {} has ", node);
          break;
        case FaultKind::slow_node:
          speed = 0.8;
          words = "it has ";
          break;
        case FaultKind::fast_node:
          speed = 1.3;
          words = "it has 1";
          break;
        case FaultKind::other_model:
          machine.cpu_model = "Another CPU";
          words = "its CPU is Another CPU, not ";
          break;
      }
    }
    NodeRecord made = record_of(machine, name);
    made.at = "2026-11-20T21:00:00Z";
    double slowest = 1;
    for (RecordedMemory& memory : made.numa) {
      const double factor = memory.node.os_index == slow ? 0.61 : 1;
      slowest = std::min(slowest, factor);
      memory.bytes_per_s = noisy(200e9 * speed * factor);
      memory.memory_bytes -= memory.memory_bytes / 2000 * draw(5);  // firmware reserves a varying part
    }
    made.bytes_per_s = noisy(200e9 * static_cast<double>(made.numa.size()) * speed * slowest);
    return made;
  }

  double noisy(double figure) {
    return figure * std::max(0.1, 1 + noise_ * std::normal_distribution<double>()(random_));
  }
  std::size_t draw(std::size_t below) {
    return std::uniform_int_distribution<std::size_t>(0, below - 1)(random_);
  }

  std::vector<Topology> machines_;
  double noise_;
  std::mt19937 random_;
};

/// Returns a machine of a file with a name for its CPU and 256 GiB on each NUMA node.
inline Topology machine_for_cluster(const std::string& path, const std::string& model) {
  Topology machine = topology_of(path);
  if (machine.cpu_model.empty()) machine.cpu_model = model;
  for (NumaNode& node : machine.nodes) {
    if (node.memory_bytes > 0) node.memory_bytes = 256ULL << 30;
  }
  return machine;
}

}  // namespace zf
