// Puts the decision of a plan in words and figures. Pure. Precondition: every candidate of the plan has
// samples.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace zf {

/// Returns how the cores are split, how long a period takes with that, and how unbound compares with it.
std::string headline_of(const Plan& plan);

struct KeyFigure {
  std::string name;   ///< "period"
  std::string value;  ///< "41.2 ms"
  std::string note;   ///< "spread 1.2 %", "slower (+7.0 to +11.8 %; minus is faster)"; may be empty
};

/// Returns the times of the chosen split, and how the controls compare with it. Empty if the split was not
/// measured.
std::vector<KeyFigure> figures_of(const Plan& plan);

}  // namespace zf
