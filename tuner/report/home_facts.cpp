#include "report/home_facts.hpp"

#include <algorithm>

namespace zf {

const Gpu* gpu_of(const RankBinding& rank, const std::vector<Gpu>& gpus) {
  const auto gpu = std::find_if(gpus.begin(), gpus.end(), [&](const Gpu& one) {
    return rank.gpu && one.pci_address == rank.gpu->pci_address;
  });
  return gpu != gpus.end() && !gpu->local_cpus.empty() ? &*gpu : nullptr;
}

HomeFacts facts_of_home(const CpuSet& home, const Gpu* gpu, const Topology& topology) {
  HomeFacts facts;
  std::set<int> gpu_packages;
  for (const Core& core : topology.cores) {
    if (gpu != nullptr && gpu->local_cpus.intersects(core.cpus)) gpu_packages.insert(core.package);
  }
  const int fastest = static_cast<int>(topology.cpu_kinds.size()) - 1;
  for (const Core& core : topology.cores) {
    if (!core.cpus.intersects(home)) continue;
    ++facts.cores;
    facts.fast_cores += fastest > 0 && core.kind == fastest;
    facts.near_gpu += gpu != nullptr && gpu->local_cpus.intersects(core.cpus);
    facts.in_package_of_gpu += gpu_packages.contains(core.package);
    if (core.node) facts.nodes.insert(core.node->os_index);
    facts.packages.insert(core.package);
    if (core.l3 >= 0) facts.l3_groups.insert(core.l3);
  }
  return facts;
}

}  // namespace zf
