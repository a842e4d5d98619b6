// One unit for all times of a chart.
#pragma once

#include "base/clock.hpp"

namespace zf {

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

}  // namespace zf
