// What DeepSpeed can be told. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace zf {

/// cpuadam_cores_perc: SuperOffload leaves int((1 - perc) * all_pus) CPUs to training, rounded towards zero,
/// so this aims half a PU above. Precondition: 1 <= training_pus < all_pus.
double superoffload_perc(int training_pus, int all_pus);

}  // namespace zf
