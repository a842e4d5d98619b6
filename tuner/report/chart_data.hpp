// Puts the evidence of a plan in the form that page.js draws. Pure.
#pragma once

#include <cstddef>
#include <string>

#include "base/clock.hpp"
#include "plan/plan.hpp"

namespace zf {

/// A unit for all times of a chart.
struct TimeUnit {
  const char* name;  ///< "ms"
  double ns;         ///< nanoseconds per unit
};

/// Returns the largest unit in which `ns` is at least 1.
inline TimeUnit unit_for(Nanoseconds ns) {
  for (const TimeUnit unit : {TimeUnit{"s", 1e9}, TimeUnit{"ms", 1e6}, TimeUnit{"us", 1e3}}) {
    if (static_cast<double>(ns) >= unit.ns) return unit;
  }
  return {"ns", 1};
}

/// Returns how many candidates the bar chart shows: the fastest ones, the chosen one and the controls.
std::size_t bars_shown(const Plan& plan);

/// Returns JSON:
/// { "unit": "ms", "interval": training steps per period,
///   "sides": [{ label, chosen, step: [quartile, median, quartile], training: the same or null }],
///   "bandwidth": { "points": [{ x: pool threads per rank, y: quartiles in GB/s, label, placement }],
///                  "roofline": [{ x, y }], "marks": [{ x, text }] } }
/// `sides` holds times in that unit, shortest period first. The training times are those of a whole period,
/// the steps are the job's own. Bandwidths are those of our step. Precondition: an eligible split was
/// measured, and every candidate has samples.
std::string chart_data(const Plan& plan);

}  // namespace zf
