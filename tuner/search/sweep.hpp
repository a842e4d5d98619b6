// Searches for the best split: explores coarsely, refines where a better split could be, and confirms the
// choice. Successive halving over the same candidates was tried: in 95 % of runs its regret was at most 1.4 %
// where this has 0.9 %, with 2.6 times the visits.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/enum_names.hpp"
#include "homes/homes.hpp"
#include "measure/meter.hpp"
#include "plan/evidence.hpp"
#include "plan/workload.hpp"
#include "search/candidates.hpp"
#include "search/contest.hpp"

namespace zf {

struct SweepLimits {
  /// The longest time to measure, by the meter's clock; no visit but the first begins if it would end later.
  /// 0: 60 times as long as the first visit, at least 20 s and at most 10 minutes.
  Nanoseconds budget_ns = 0;
  double accuracy = kDefaultTie;  ///< smallest relative difference of periods that counts
  /// With 4: 1.25, 1.69 and 0.30 % (decision.hpp says of what), and 29 visits on 256 cores instead of 19.
  /// With 16: 1.17, 1.69 and 0.28 %, in twice the time.
  int samples_per_visit = 8;
  int splits = 60;  ///< the largest number of splits that are measured; with 30 the figures are the same
  SharedPools shared_pools = SharedPools::any;
  double budget_share = 1;          ///< part of the default budget that this sweep may use
  unsigned seed = 1;                ///< of the order within a round
  std::function<bool()> stop = {};  ///< asked before and during every visit; true ends the sweep with the
                                    ///< evidence so far
};

enum class SweepPhase { explore, refine, confirm, estimate };

template <>
inline constexpr auto kEnumNames<SweepPhase> =
    std::to_array<EnumName<SweepPhase>>({{SweepPhase::explore, "explore"},
                                         {SweepPhase::refine, "refine"},
                                         {SweepPhase::confirm, "confirm"},
                                         {SweepPhase::estimate, "estimate"}});

/// The report that the caller gets after every visit.
struct SweepProgress {
  SweepPhase phase = SweepPhase::explore;
  int round = 0;       ///< from 0
  int visit = 0;       ///< within the round, from 1
  int round_size = 0;  ///< visits in this round
  Nanoseconds elapsed_ns = 0;
  Nanoseconds budget_ns = 0;
  const Evidence* evidence = nullptr;
  const CandidateEvidence* visited = nullptr;
  const CandidateEvidence* best = nullptr;  ///< what would be chosen now
};

struct SweepResult {
  Evidence evidence;                  ///< candidates that were measured, ids 0.. in order of first visit
  std::vector<Split> splits;          ///< splits[id] is what candidate id measured
  int visits = 0;                     ///< calls of the meter
  Nanoseconds budget_ns = 0;          ///< what was given, or what followed from the first visit
  Nanoseconds telling_budget_ns = 0;  ///< if that was too short: about how long it takes to know differences,
                                      ///< by the first visit; otherwise 0
  std::vector<std::string> warnings;  ///< names splits with times that are not believable
  bool cut_short = false;             ///< a visit failed: see warnings
};

/// Measures in rounds of at most four visits, which are the blocks of the statistics. The visits of a round
/// come in random order, but in the first one.
/// - explore: visits the controls once each.
/// - refine: visits promising_splits() together with the fastest split, until none is left.
/// - confirm: visits candidates_to_revisit() until none is left.
/// - estimate: visits the choice, its runner-up, unbound and the shared home three to sixteen times each, to
///   know their differences.
/// Each phase ends when its share of the budget is spent. If the budget is too short for samples_per_visit,
/// the visits of a round share its time equally, down to Meter::kMinSamples each. A visit ends after three
/// periods that are half as long again as the shortest so far. A visit with samples that are not believable
/// (is_possible()) is repeated, at most twice. The result has no candidate if the sweep was stopped at once.
/// If a visit throws after others were measured, the sweep ends with a warning; otherwise it throws what the
/// meter throws.
SweepResult sweep(const std::vector<Home>& homes, const Workload& workload, Meter& meter,
                  const SweepLimits& limits, const std::function<void(const SweepProgress&)>& progress);

}  // namespace zf
