// Chooses the split that the plan binds. Pure.
#pragma once

#include "plan/choice.hpp"
#include "plan/evidence.hpp"
#include "plan/workload.hpp"

namespace zf {

/// Returns what decide() chooses, with the headroom, but without a reason: report puts it in words.
/// Precondition: that of contest_of().
Choice choose(const Evidence& evidence, const Workload& workload);

}  // namespace zf
