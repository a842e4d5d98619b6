// Counts what a home has of each point by which homes are cut. Pure.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "machine/topology.hpp"
#include "plan/rank_binding.hpp"

namespace zf {

/// The points of homes/home_score.hpp, of one home.
struct HomeFacts {
  int cores = 0;
  int fast_cores = 0;  ///< of the fastest kind; 0 if all cores are alike
  int near_gpu = 0;
  int in_package_of_gpu = 0;
  std::set<int> nodes;
  std::set<int> packages;
  std::set<int> l3_groups;  ///< empty: the machine's are not known
};

/// Returns the rank's GPUs as one, with the CPUs near any of them; nothing if one of them, or the CPUs near
/// it, are not known. `gpus` are those of the plan.
std::optional<Gpu> gpu_of(const RankBinding& rank, const std::vector<Gpu>& gpus);

/// Returns the facts of a home whose rank computes on `gpu`; nothing: not known. A core counts if the home
/// has one of its PUs.
HomeFacts facts_of_home(const CpuSet& home, const std::optional<Gpu>& gpu, const Topology& topology);

}  // namespace zf
