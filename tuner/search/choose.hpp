// Puts the choice of a sweep in words: which split the plan binds, and why. Pure.
#pragma once

#include "plan/plan.hpp"

namespace zf {

/// Returns what decide() chose, with the reason. Precondition: that of decide().
Choice choose(const Evidence& evidence, const Workload& workload);

}  // namespace zf
