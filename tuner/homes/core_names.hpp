// Turns numbers of cores into cores. Pure.
#pragma once

#include <vector>

#include "homes/domains.hpp"
#include "homes/home_score.hpp"

namespace zf {

/// Returns a division in which each rank has so many cores of each batch (`counts` is by rank and batch). Of
/// a batch every rank gets neighbours, on the side where the rest of its home lies. Ranks with one place have
/// their homes in topological order. Precondition: the counts use every core.
Division named_cores(const Domains& domains, const std::vector<std::vector<int>>& counts);

}  // namespace zf
