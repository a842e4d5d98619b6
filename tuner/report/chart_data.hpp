// What the page's script draws, as JSON. Pure.
#pragma once

#include <cstddef>
#include <string>

#include "plan/plan.hpp"

namespace zf {

/// How many candidates the bars can show legibly: the fastest, and what else is chosen or a control.
std::size_t bars_shown(const Plan& plan);

/// { "unit": "ms", "interval": training steps per period,
///   "sides": [{ label, chosen, step: [quartile, median, quartile], training: the same or null }],
///   "bandwidth": { "points": [{ x: pool threads per rank, y: quartiles in GB/s, label, placement }],
///                  "roofline": [{ x, y }], "marks": [{ x, text }] } }
/// The sides are times in that unit, the training side's those of a whole period; shortest period first.
/// Precondition: a split that a plan can say was measured, and every candidate has samples.
std::string chart_data(const Plan& plan);

}  // namespace zf
