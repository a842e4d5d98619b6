// Puts the choice of a sweep in words: why this split won, and how far that can be trusted. Pure.
#pragma once

#include <string>

#include "base/clock.hpp"
#include "search/contest.hpp"

namespace zf {

/// Returns the reason for the decision: how long a period and its sides take, what else was near, and how
/// that and running unbound compare with the winner. `telling_budget_ns` is that of SweepResult.
/// Precondition: that of decide().
std::string reason_of(const Evidence& evidence, const Workload& workload, const Decision& decision,
                      Nanoseconds telling_budget_ns);

/// Returns the last sentence of the reason, ". No plan can express that: run this job unbound", if running
/// unbound is surely faster than the choice; otherwise "".
std::string advice_of(const Decision& decision);

/// Returns "2 of 40 visits are left out: other visits of the same splits contradict them"; "" if none is.
std::string outliers_in_words(const Evidence& evidence, const Workload& workload);

/// Returns one sentence for the user if equal splits differ so much on this machine that the choice says
/// little; "" otherwise. Call summarize() before.
std::string noise_warning(const Evidence& evidence);

}  // namespace zf
