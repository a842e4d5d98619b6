// Draws every period that was measured, in the order of time. Pure.
#pragma once

#include <string>

#include "plan/plan.hpp"

namespace zf {

/// Returns the chart as HTML, with its legend and a caption: the periods of the chosen split, of unbound and
/// of the other splits, and where the choice was made. Returns an empty text if there are fewer than two
/// samples.
std::string samples_plot(const Plan& plan);

}  // namespace zf
