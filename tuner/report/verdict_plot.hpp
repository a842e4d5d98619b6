// Draws how the other splits compare with the plan's, each with its interval. Pure.
#pragma once

#include <string>

#include "plan/plan.hpp"

namespace zf {

/// Returns a table as HTML: a row for the plan and one for each other split, fastest first, with its interval
/// drawn around a line for the plan, its figures and its verdict. All of these are those of
/// splits_beside_plan(). Splits of unknown difference have no row; of many splits, the slowest that
/// are no control have none. Returns an empty text if no difference is known.
std::string verdict_plot(const Plan& plan);

}  // namespace zf
