// The one measure by which splits are compared: what a split loses against the best one, as the workload says
// and if the job differs from it. Pure.
#pragma once

#include <array>
#include <iterator>
#include <vector>

#include "plan/period.hpp"
#include "search/period_levels.hpp"
#include "search/policy.hpp"

namespace zf {

/// Returns whether it is known what the split would take if the job differed from its workload: training and
/// the step were measured.
inline bool can_differ(const SplitTimes& split) { return split.training > 0 && split.step > 0; }

/// Compares splits with the best of those that were measured, in each scenario (training a times as long, the
/// step b times): P(a, b) = period × period_of(a × training, b × step) ÷ period_of(training, step), and
/// loss(a, b) = P(a, b) ÷ the least P(a, b) of all measured − 1. A forecast may lose less than nothing.
class Risks {
 public:
  /// Precondition: `measured` is not empty.
  Risks(const std::vector<SplitTimes>& measured, const Schedule& schedule);

  /// Returns loss(1, 1): how much longer the period is than the shortest one.
  double loss(const SplitTimes& split) const;
  /// Returns the largest loss in kWaysToDiffer; loss(1, 1) if that is not known (can_differ()).
  double loss_if_it_differs(const SplitTimes& split) const;
  /// Returns loss(1, 1) and kDifferWeight of loss_if_it_differs(); loss(1, 1) alone if that is not known.
  double risk(const SplitTimes& split) const;

 private:
  const Schedule schedule_;
  double least_ = 0;                                            ///< P(1, 1)
  std::array<double, std::size(kWaysToDiffer)> least_of_ = {};  ///< P in each way to differ
};

}  // namespace zf
