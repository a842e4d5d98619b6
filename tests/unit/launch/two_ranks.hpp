// A plan of two ranks, and what may be allowed to them.
#pragma once

#include <optional>

#include "base/cpu_list.hpp"
#include "launch/launch_request.hpp"
#include "os/allowed.hpp"
#include "plan/plan.hpp"

namespace zf {

/// Returns a plan of two ranks: training 0-3 and 8-11, optimizer 4-7 and 12-15, on nodes 0 and 1. Our
/// runtime runs the optimizer.
inline Plan two_ranks() {
  Plan plan;
  plan.workload.framework = Framework::native;
  for (int rank = 0; rank < 2; ++rank) {
    const std::string base[2][2] = {{"0-3", "4-7"}, {"8-11", "12-15"}};
    RankBinding binding;
    binding.rank = rank;
    binding.training = {parse_cpu_list(base[rank][0], "test"), 4};
    binding.optimizer = {parse_cpu_list(base[rank][1], "test"), {Node{rank}}, MemoryPolicy::preferred};
    binding.home = {binding.both_sides(), 8};
    plan.ranks.push_back(binding);
  }
  return plan;
}

inline const LaunchRequest kRequest{"/plans/plan.json", std::nullopt, false};

inline Allowed allowed(const char* cpus, const char* mems = "0-1") {
  Allowed result;
  result.cpus = parse_cpu_list(cpus, "test");
  result.mems = parse_node_list(mems, "test");
  return result;
}

}  // namespace zf
