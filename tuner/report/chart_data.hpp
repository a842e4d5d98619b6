// One unit for all times of a chart. Pure.
#pragma once

#include <cstddef>
#include <string>

#include "base/clock.hpp"
#include "plan/plan.hpp"

namespace zf {

struct TimeUnit {
  const char* name;  ///< "ms"
  double ns;         ///< so many nanoseconds
};

/// The largest in which `ns` is at least 1.
inline TimeUnit unit_for(Nanoseconds ns) {
  for (const TimeUnit unit : {TimeUnit{"s", 1e9}, TimeUnit{"ms", 1e6}, TimeUnit{"us", 1e3}}) {
    if (static_cast<double>(ns) >= unit.ns) return unit;
  }
  return {"ns", 1};
}

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
