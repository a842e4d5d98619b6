// Draws the periods over reserved cores and pool threads as a table with shaded cells. Pure.
#pragma once

#include <string>

#include "plan/plan.hpp"

namespace zf {

/// Returns a table with one row per number of reserved cores and one column per number of pool threads. A
/// cell holds the shortest period of all placements, or that of the chosen split. Cells that the search did
/// not visit are empty. Unbound is left out, because it reserves nothing. Returns an empty text if the cells
/// have one dimension alone: then the table of splits says as much.
std::string heat_map(const Plan& plan);

}  // namespace zf
