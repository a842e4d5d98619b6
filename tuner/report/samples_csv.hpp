// Writes every period that was measured as CSV, for other programs to plot. Pure.
#pragma once

#include <string>

#include "plan/plan.hpp"

namespace zf {

/// Returns a line of names, then a line for each sample of the plan, in the order in which they were
/// measured. Times are whole nanoseconds, as measured on Evidence::scale of the model; period_ns is what
/// period_ns() makes of them. `checks` is 1 if the sample came after the choice, to check it, else 0.
std::string samples_csv(const Plan& plan);

}  // namespace zf
