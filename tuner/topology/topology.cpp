#include "topology/topology.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace zf {
namespace {

/// Returns how readily a node of this kind owns cores; lower first. HBM comes second and not last: on a Xeon
/// Max without DIMMs the cores belong to HBM, because nothing else is local to them.
int ownership_tier(const std::string& subtype) {
  if (subtype.empty() || subtype == "DRAM") return 0;
  return subtype == "MCDRAM" || subtype == "HBM" ? 1 : 2;
}

}  // namespace

const Gpu* gpu_at(const std::vector<Gpu>& gpus, std::string_view pci_address) {
  const auto found =
      std::find_if(gpus.begin(), gpus.end(), [&](const Gpu& gpu) { return gpu.pci_address == pci_address; });
  return found == gpus.end() ? nullptr : &*found;
}

Gpu* gpu_at(std::vector<Gpu>& gpus, std::string_view pci_address) {
  return const_cast<Gpu*>(gpu_at(std::as_const(gpus), pci_address));
}

std::string in_words(const CpuKind& kind) {
  const char* const between = kind.description.empty() || kind.today.empty() ? "" : "; ";
  return kind.description + between + kind.today;
}

int make_of(const std::vector<CpuKind>& kinds, int kind) {
  const auto end =
      kinds.begin() + std::min(static_cast<std::ptrdiff_t>(kinds.size()), kind + std::ptrdiff_t{1});
  return kind -
         static_cast<int>(std::count_if(kinds.begin(), end, [](const CpuKind& k) { return k.divides_make; }));
}

std::vector<CpuKind> join_similar_kinds(const std::vector<CpuKind>& kinds) {
  std::vector<CpuKind> joined;
  for (const CpuKind& kind : kinds) {
    const bool similar = !joined.empty() && kind.capacity && joined.back().capacity &&
                         are_alike(*kind.capacity, *joined.back().capacity);
    if (similar) {
      joined.back().cpus |= kind.cpus;
      continue;
    }
    joined.push_back(kind);
    if (kind.efficiency_rank >= 0) joined.back().efficiency_rank = static_cast<int>(joined.size()) - 1;
  }
  return joined;
}

std::optional<Node> node_of(const Topology& topology, const CpuSet& cpus) {
  std::optional<Node> found;
  for (const NumaNode& node : topology.nodes) {
    if (!cpus.empty() && node.cpus.contains(cpus) && !topology.nodes_contradict) found = node.id;
  }
  return found;
}

std::uint64_t last_level_cache_bytes(const Topology& topology) {
  std::uint64_t bytes = 0;
  for (const L3Group& group : topology.l3_groups) bytes += group.cache_bytes;
  return bytes;
}

int owner_of(const CpuSet& core, const std::vector<NodeLocality>& nodes) {
  const auto key = [](const NodeLocality& node) {
    return std::tuple(ownership_tier(node.subtype), node.local_cpus.size(), node.id);
  };
  int best = -1;
  for (int i = 0; i < static_cast<int>(nodes.size()); ++i) {
    const auto& node = nodes[static_cast<std::size_t>(i)];
    if (!node.local_cpus.contains(core)) continue;
    if (best < 0 || key(node) < key(nodes[static_cast<std::size_t>(best)])) best = i;
  }
  return best;
}

}  // namespace zf
