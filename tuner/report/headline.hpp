// Puts the decision of a plan in words, and how sure it is. Pure. Precondition: every candidate of the plan
// has samples.
#pragma once

#include <string>

#include "plan/plan.hpp"

namespace zf {

/// Returns the decision, as one sentence: how the cores are split, or that the job is best run unbound.
std::string headline_of(const Plan& plan);

/// Returns how unbound compares with the plan, as one sentence; or that no difference is known. Empty if
/// nothing was measured.
std::string certainty_of(const Plan& plan);

}  // namespace zf
