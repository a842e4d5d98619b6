// Chooses the split that the plan binds. Pure.
#pragma once

#include "base/clock.hpp"
#include "plan/choice.hpp"
#include "plan/evidence.hpp"
#include "plan/workload.hpp"

namespace zf {

/// Returns what decide() chooses, with the reason (choice_words.hpp) and the headroom. `telling_budget_ns` is
/// that of SweepResult. Precondition: that of decide().
Choice choose(const Evidence& evidence, const Workload& workload, Nanoseconds telling_budget_ns = 0);

}  // namespace zf
