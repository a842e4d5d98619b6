// The decision in words and figures. Pure. Precondition of all: every candidate of the plan has samples.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace zf {

/// One sentence: who gets what, and what that takes.
std::string headline_of(const Plan& plan);

struct Figure {
  std::string name;   ///< "period"
  std::string value;  ///< "41.2 ms"
  std::string note;   ///< "spread 1.2 %"; may be empty
};

/// What the chosen split takes, and how it compares with the controls. Empty where its split was not
/// measured.
std::vector<Figure> figures_of(const Plan& plan);

}  // namespace zf
