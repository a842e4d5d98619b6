// Says how other splits compare with the one that was chosen. Pure.
#pragma once

#include <string>

#include "base/clock.hpp"
#include "plan/trial_result.hpp"
#include "search/contest.hpp"

namespace zf {

/// Returns sentences behind the grounds of a decision, each begun with ". ": how the next best split and
/// unbound compare with the winner. If nothing is known, one says so, and which --budget would tell
/// (`telling_budget_ns`; 0: none). Leaves out what the grounds themselves compare. Always names unbound.
/// Precondition: that of decide().
std::string comparisons_in_words(const Evidence& evidence, const Workload& workload, const Decision& decision,
                                 Nanoseconds telling_budget_ns);

/// Returns "Each split, unbound too, was measured once; differences are not known", or that too few visits
/// were made. Precondition: no difference is known.
std::string unknown_differences_in_words(const Evidence& evidence);
/// Returns the same of the runs of a trial: "Each split, unbound too, ran once; differences are not known".
std::string unknown_differences_in_words(const Trial& trial);

}  // namespace zf
