// Makes a plan without measuring: each side gets half of each home.
#pragma once

#include <cstdint>
#include <string>

#include "machine/machine.hpp"
#include "machine/ranks.hpp"
#include "plan/plan.hpp"

namespace zf {

/// Returns a plan with the split that DeepSpeed makes by default (pt_reserved_cores_perc 0.5), one PU per
/// core. With `for_deepspeed`, if DeepSpeed cannot be told the free choice, the homes are those that it can
/// be told. `command` goes into the provenance. Throws as rank_homes() does.
Plan unmeasured_plan(const Machine& machine, const RankGpus& gpus, std::uint64_t params, bool for_deepspeed,
                     std::string command);

}  // namespace zf
