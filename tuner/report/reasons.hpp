// Puts the choice of a sweep or of a trial in words: why this split won, how the others compare with it, and
// how far that can be trusted. Pure. Precondition of all that take a Decision: that of decide().
#pragma once

#include <string>

#include "base/clock.hpp"
#include "plan/trial_result.hpp"
#include "search/contest.hpp"

namespace zf {

/// Returns the reason for the decision: how long a period and its sides take, what else was near, and how
/// that and running unbound compare with the winner. `telling_budget_ns` is that of SweepResult.
std::string reason_of(const Evidence& evidence, const Workload& workload, const Decision& decision,
                      Nanoseconds telling_budget_ns);

/// Returns why the winner of a trial that judge_trial() has judged won, and how the next best split and
/// unbound compare with it.
std::string reason_of(const Trial& trial, Mode mode);

/// Returns sentences behind the grounds of a decision, each begun with ". ": how the next best split and
/// unbound compare with the winner. If nothing is known, one says so, and which --budget would tell
/// (`telling_budget_ns`; 0: none). Leaves out what the grounds themselves compare. Always names unbound.
std::string comparisons_in_words(const Evidence& evidence, const Workload& workload, const Decision& decision,
                                 Nanoseconds telling_budget_ns);

/// Returns "Each split, unbound too, was measured once; differences are not known", or that too few visits
/// were made. Precondition: no difference is known.
std::string unknown_differences_in_words(const Evidence& evidence);
/// Returns the same of the runs of a trial: "Each split, unbound too, ran once; differences are not known".
std::string unknown_differences_in_words(const Trial& trial);

/// Returns the last sentence of the reason, ". No plan can express that: run this job unbound", if running
/// unbound is surely faster than the choice; otherwise "".
std::string advice_of(const Decision& decision);

/// Returns "2 of 40 visits are left out: other visits of the same splits contradict them"; "" if none is.
std::string outliers_in_words(const Evidence& evidence, const Workload& workload);

/// Returns one sentence for the user if equal splits differ so much on this machine that the choice says
/// little; "" otherwise. Call summarize() before.
std::string noise_warning(const Evidence& evidence);

}  // namespace zf
