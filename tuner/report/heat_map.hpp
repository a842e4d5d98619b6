// Periods over reserved cores and pool threads, as a table whose cells are shaded. Pure.
#pragma once

#include <string>

#include "plan/plan.hpp"

namespace zf {

/// One row per number of reserved cores, one column per number of pool threads, in each cell the shortest
/// period of any placement, or the chosen split's. Cells that the search did not visit are empty. Unbound,
/// which reserves nothing, is not in it. Empty where no split was measured that a plan can say.
std::string heat_map(const Plan& plan);

}  // namespace zf
