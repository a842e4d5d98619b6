// Turns numbers of cores into cores. Pure.
#pragma once

#include <vector>

#include "homes/domains.hpp"
#include "homes/home_score.hpp"

namespace zf {

/// Returns a division in which each rank has so many cores of each batch (`counts` is by rank and batch).
/// The cores that a rank gets of one batch are neighbours, on the side where the rest of its home lies. Homes
/// of ranks with the same place are in topological order. Precondition: the counts use every core.
Division named_cores(const Domains& domains, const std::vector<std::vector<int>>& counts);

}  // namespace zf
