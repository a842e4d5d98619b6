// What DeepSpeed can be told. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace zf {

/// Why DeepSpeed's own rules would not give these bindings back, in words; absent: they would.
/// `machine_cores`: of the whole machine. Precondition: ranks numbered 0.. in order, at least one.
std::optional<std::string> why_not_deepspeed(const std::vector<RankBinding>& ranks, int machine_cores);

/// cpuadam_cores_perc: SuperOffload leaves int((1 - perc) * all_pus) CPUs to training, rounded towards zero,
/// so this aims half a PU above. Precondition: 1 <= training_pus < all_pus.
double superoffload_perc(int training_pus, int all_pus);

}  // namespace zf
