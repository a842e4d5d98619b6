// For tests: the schedule of most jobs.
#pragma once

#include "plan/period.hpp"

namespace zf {

inline constexpr Schedule kOverlap{Mode::overlap, 1};

}  // namespace zf
