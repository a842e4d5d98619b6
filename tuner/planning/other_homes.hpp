// Says whether this version would cut a plan's homes better. Pure.
#pragma once

#include <optional>
#include <string>

#include "machine/machine.hpp"
#include "plan/plan.hpp"

namespace zf {

/// Returns a sentence if this version would give other homes to the ranks of a plan that fits here, and these
/// are better in a point that counts (home_score.hpp). Returns nothing if the homes are as good, or if other
/// CPUs are allowed than the plan was made for. The GPUs are those of the plan.
std::optional<std::string> better_homes_note(const Plan& plan, const Machine& machine);

}  // namespace zf
