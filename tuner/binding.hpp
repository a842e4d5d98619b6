// From a split to what the plan says about a rank. Pure.
#pragma once

#include "plan/plan.hpp"
#include "tuner/split.hpp"

namespace zf {

/// The plan's entry for a local rank. Training gets as many threads as it has cores (siblings are there for
/// the launch and data-loading threads, not for OpenMP). In a shared split both sides are the whole home. The
/// memory policy is `preferred`.
RankBinding binding_of_split(int rank, const RankSplit& split);

}  // namespace zf
