// Chooses the split that the plan binds. Pure.
#pragma once

#include "plan/choice.hpp"
#include "plan/evidence.hpp"
#include "plan/workload.hpp"

namespace zf {

/// Returns what decide() chose, with the reason (choice_words.hpp) and the headroom. Precondition: that of
/// decide().
Choice choose(const Evidence& evidence, const Workload& workload);

}  // namespace zf
