// Puts the choice of a sweep in words: which split the plan binds, and why. Pure.
#pragma once

#include <string>

#include "plan/choice.hpp"
#include "plan/evidence.hpp"
#include "plan/workload.hpp"

namespace zf {

/// Returns one sentence for the user if equal splits differ so much on this machine that the choice says
/// little;
/// "" otherwise. Call summarize() before.
std::string noise_warning(const Evidence& evidence);

/// Returns what decide() chose, with the reason. Precondition: that of decide().
Choice choose(const Evidence& evidence, const Workload& workload);

/// Returns the last sentence of the reason, ". No plan can express that: run this job unbound", if running
/// unbound is surely faster than the choice; otherwise "". Precondition: that of decide().
std::string advice_of(const Evidence& evidence, const Workload& workload);

}  // namespace zf
