// The search: a coarse look, then wherever a better split could hide, then rounds until the choice is
// decided.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "homes/homes.hpp"
#include "measure/meter.hpp"
#include "plan/plan.hpp"
#include "search/decision.hpp"

namespace zf {

struct SweepLimits {
  Nanoseconds budget_ns =
      60 * kSecondNs;  ///< by the meter's clock: no visit begins that would end after it, but the first
  double accuracy = kDefaultTie;  ///< relative difference of periods to tell apart
  int samples_per_visit = 8;
  int splits = 60;             ///< that are measured at the most; they take what they need of the visits
  unsigned seed = 1;           ///< of the order within a round
  std::function<bool()> stop;  ///< asked before every visit: true ends the sweep with what it has
};

enum class SweepPhase { explore, refine, confirm };

/// Told after every visit.
struct SweepProgress {
  SweepPhase phase = SweepPhase::explore;
  int round = 0;       ///< from 0
  int visit = 0;       ///< within the round, from 1
  int round_size = 0;  ///< visits in this round
  Nanoseconds elapsed_ns = 0;
  Nanoseconds budget_ns = 0;
  const Evidence* evidence = nullptr;
  const CandidateEvidence* visited = nullptr;
  const CandidateEvidence* best = nullptr;  ///< as choose() would say now
};

struct SweepResult {
  Evidence evidence;                  ///< candidates that were measured, ids 0.. in order of first visit
  std::vector<Split> splits;          ///< splits[id] is what candidate id measured
  int visits = 0;                     ///< calls of the meter
  std::vector<std::string> warnings;  ///< splits whose times cannot be
};

/// Rounds of visits in random order, so that drift of the machine hits all alike:
/// - look: the controls and the growing pools, once each, in half of the budget at the most;
/// - narrow: promising_splits(), beside the fastest and the knee, until there are none or three quarters of
///   the budget are spent;
/// - settle: candidates_to_revisit() ones, until there are none; each round's visits are twice as long.
/// Where the budget is short of time for samples_per_visit, the visits of a round share it alike, down to
/// Meter::kMinSamples each. A visit whose samples cannot be (is_possible()) is made again, twice at the
/// most. May end without any candidate, if stopped at once. Throws what the meter throws.
SweepResult sweep(const std::vector<Home>& homes, const Workload& workload, Meter& meter,
                  const SweepLimits& limits, const std::function<void(const SweepProgress&)>& progress);

}  // namespace zf
