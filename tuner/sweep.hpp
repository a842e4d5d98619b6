// The search: grow the pool until memory bandwidth is saturated, and keep every sample on the way.
#pragma once

#include <functional>
#include <vector>

#include "base/clock.hpp"
#include "plan/plan.hpp"
#include "tuner/homes.hpp"
#include "tuner/meter.hpp"

namespace zf {

struct SweepLimits {
  Nanoseconds budget_ns = 60 * kSecondNs;  ///< no visit begins that would end after it, but the first
  int rounds = 5;                          ///< visits per candidate at the most
  int samples_per_visit = 3;
  unsigned seed = 1;           ///< of the order within a round
  std::function<bool()> stop;  ///< asked before every visit: true ends the sweep with what it has
};

/// Told after every visit.
struct SweepProgress {
  int round = 0;
  int visits = 0;
  Nanoseconds elapsed_ns = 0;
  const CandidateEvidence* visited = nullptr;
  const CandidateEvidence* best = nullptr;  ///< as choose() would say now
};

struct SweepResult {
  Evidence evidence;          ///< candidates that were measured, ids 0.. in order of first visit
  std::vector<Split> splits;  ///< splits[id] is what candidate id measured
};

/// Visits the coarse shapes once, then the sizes around the knee, then all of them round after round in
/// random order, so that drift of the machine hits all alike. May end without any candidate, if stopped at
/// once. Throws what the meter throws.
SweepResult sweep(const std::vector<Home>& homes, int update_interval, Meter& meter,
                  const SweepLimits& limits, const std::function<void(const SweepProgress&)>& progress);

}  // namespace zf
