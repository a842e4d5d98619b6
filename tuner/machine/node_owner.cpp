#include "machine/node_owner.hpp"

#include <tuple>

namespace zf {
namespace {

/// Where nothing else is local, cores do belong to HBM: Xeon Max without DIMMs.
int tier(const std::string& subtype) {
  if (subtype.empty() || subtype == "DRAM") return 0;
  return subtype == "MCDRAM" || subtype == "HBM" ? 1 : 2;
}

}  // namespace

int owner_of(const CpuSet& core, const std::vector<NodeLocality>& nodes) {
  const auto key = [](const NodeLocality& node) {
    return std::tuple(tier(node.subtype), node.local_cpus.size(), node.id);
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
