// A plan in words: what was chosen, from what evidence, and why. Pure.
#pragma once

#include <string>

#include "plan/plan.hpp"

namespace zf {

/// The bindings, one row per rank.
std::string explain_bindings(const Plan& plan);

/// The evidence, one row per candidate, fewest pool threads first, the chosen one marked.
std::string explain_evidence(const Plan& plan);

/// What the job itself said, one row per split, the winner marked.
std::string explain_trial(const Trial& trial);

/// Everything, for a person: machine, allocation, bindings, evidence, reason, warnings.
std::string explain(const Plan& plan);

}  // namespace zf
