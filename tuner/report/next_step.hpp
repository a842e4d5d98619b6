// Says what the reader of a plan types next. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.hpp"

namespace zf {

struct NextStep {
  std::vector<std::string> commands;  ///< lines for a shell; may be empty
  std::string words;                  ///< what to put in their place, or what to do without one
};

/// Returns how the job is started under the plan, which is in `plan_file`; or without it, if running unbound
/// is better. Takes the launcher from the plan's framework, and the job from its trial. A plan of a simulated
/// machine starts nothing.
NextStep next_step(const Plan& plan, const std::string& plan_file);

}  // namespace zf
