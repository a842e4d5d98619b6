// Says what DeepSpeed does that a plan does not. Pure.
#pragma once

#include <string>
#include <vector>

#include "exports/deepspeed_settings.hpp"
#include "plan/plan.hpp"

namespace zf {

/// Returns what DeepSpeed 0.19.8 does to these ranks beside or against the plan, one sentence each, with
/// numbers: threads, memory policy, threads that are not moved, GPUs. Empty if there is nothing. The plan
/// does not have the CPUs of each NUMA node: a rank counts as inside one node if its memory is one node.
/// Precondition: why_not_deepspeed() accepts the ranks.
std::vector<std::string> deepspeed_differences(const Plan& plan, const DeepSpeedOptimizer& optimizer);

}  // namespace zf
