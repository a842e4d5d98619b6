// Makes a plan of what a sweep found, with its reason in words.
#pragma once

#include <string>

#include "plan/plan.hpp"
#include "search/tuning.hpp"

namespace zf {

/// Returns the plan of the job. Its reason says why the split won, whether the sweep was cut short, what a
/// restriction costs, and last whether to run unbound instead.
Plan plan_of(const TuningJob& job, const TuningRequest& request, Tuned tuned);

/// Returns "Against this plan, the free choice, "pool 4, spread", is faster: -10.7 % (-11.4 to -10.0 %; minus
/// is faster)", or says that nothing is known. Pure.
std::string cost_in_words(const RestrictionCost& cost, double accuracy);

}  // namespace zf
