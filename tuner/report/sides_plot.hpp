// Draws both sides of a period over the size of the pool (sides.hpp). Pure.
#pragma once

#include <string>

#include "plan/plan.hpp"

namespace zf {

/// Returns the chart as HTML, with its legend and a caption. Returns an empty text if pools of fewer than two
/// sizes were measured: then the table says as much.
std::string sides_plot(const Plan& plan);

}  // namespace zf
