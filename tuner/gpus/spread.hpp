// Spreads fewer ranks than GPUs over the packages, and names the GPUs for a list of visible devices. Pure.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plan/rank_gpu.hpp"
#include "topology/topology.hpp"

namespace zf {

/// Returns by rank a GPU of its own: each package has ranks in proportion to its GPUs, and within it they are
/// spread too. Returns nothing unless that leaves fewer ranks in the fullest package than the first GPUs
/// do, or if a GPU is near no package or several. Precondition: the GPUs are in the order in which frameworks
/// count them.
std::vector<Gpu> spread_over_packages(const Topology& topology, const std::vector<Gpu>& gpus, int ranks);

/// Returns how many of the first `count` of these GPUs are near each package; -1: near none, or several.
std::map<int, std::size_t> gpus_by_package(const Topology& topology, const std::vector<Gpu>& gpus,
                                           std::size_t count);

/// Returns how many are near the package that has most of them.
std::size_t most_in_a_package(const std::map<int, std::size_t>& by_package);

/// Returns the package that these CPUs are in; nothing if they are in several or in none.
std::optional<int> package_of_cpus(const Topology& topology, const CpuSet& cpus);

/// Returns a GPU as a plan has it.
RankGpu planned_gpu(const Gpu& gpu);

/// Returns the variables that make exactly these GPUs visible, in this order: CUDA_VISIBLE_DEVICES with UUIDs
/// if all are known and `uuids_count` (they are those of this node), else with numbers, which
/// CUDA_DEVICE_ORDER=PCI_BUS_ID makes certain; for AMD's GPUs ROCR_VISIBLE_DEVICES with UUIDs. Returns
/// nothing if these names are not known.
std::map<std::string, std::string> variables_of_gpus(const std::vector<RankGpu>& gpus, bool uuids_count);

/// Returns "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=0,2".
std::string in_words(const std::map<std::string, std::string>& variables);

}  // namespace zf
