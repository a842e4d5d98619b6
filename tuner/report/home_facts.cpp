#include "report/home_facts.hpp"

#include <algorithm>

namespace zf {

std::optional<Gpu> gpu_of(const RankBinding& rank, const std::vector<Gpu>& gpus) {
  std::optional<Gpu> place;
  for (const RankGpu& planned : gpus_of(rank)) {
    const auto gpu = std::find_if(gpus.begin(), gpus.end(),
                                  [&](const Gpu& one) { return one.pci_address == planned.pci_address; });
    if (gpu == gpus.end() || gpu->local_cpus.empty()) return std::nullopt;
    if (!place) place = *gpu;
    place->local_cpus |= gpu->local_cpus;
  }
  return place;
}

HomeFacts facts_of_home(const CpuSet& home, const std::optional<Gpu>& gpu, const Topology& topology) {
  HomeFacts facts;
  std::set<int> gpu_packages;
  for (const Core& core : topology.cores) {
    if (gpu && gpu->local_cpus.intersects(core.cpus)) gpu_packages.insert(core.package);
  }
  const int fastest = static_cast<int>(topology.cpu_kinds.size()) - 1;
  for (const Core& core : topology.cores) {
    if (!core.cpus.intersects(home)) continue;
    ++facts.cores;
    facts.fast_cores += fastest > 0 && core.kind == fastest;
    facts.near_gpu += gpu && gpu->local_cpus.intersects(core.cpus);
    facts.in_package_of_gpu += gpu_packages.contains(core.package);
    if (core.node) facts.nodes.insert(core.node->os_index);
    facts.packages.insert(core.package);
    if (core.l3 >= 0) facts.l3_groups.insert(core.l3);
  }
  return facts;
}

}  // namespace zf
