// Proposes the splits to measure: first a coarse set, then those that could still be better. Pure.
#pragma once

#include <vector>

#include "homes/split.hpp"

namespace zf {

/// Returns the controls: half and half, two reserved, unbound. Those that are equal on these homes come once.
std::vector<Split> control_splits(const std::vector<Home>& homes);

/// Returns compact pools of 1, 2, 3, 4, 6, 8, 12, 16, … cores with one PU per core. The largest pool leaves
/// one core of the smallest home to training, and is always among them. Pools that equal a control are left
/// out.
std::vector<Split> growing_splits(const std::vector<Home>& homes);

/// A split that has been measured. The times are medians.
struct TriedSplit {
  Split split;
  double step_ns = 0;      ///< the optimizer's step
  double roofline_ns = 0;  ///< what the step would take if training used no bandwidth
  double training_window_ns =
      0;  ///< update_interval training steps, behind which the step can hide; 0 without a training side
  double period_ns() const;
};

/// The largest number of splits that promising_splits() returns.
inline constexpr std::size_t kMaxProposals = 4;
/// About how many splits with idle cores are tried in a sweep.
inline constexpr int kIdleTries = 6;

/// Returns the splits that could beat the best one tried by more than half of `tie`, most promising first,
/// and one with a smaller pool that could be as fast as the best. Returns none if by this reasoning none
/// could:
/// - In one family (same placement, PUs per core, CPU kind), a larger pool steps faster and makes training
///   slower. So between two tried sizes, no period is shorter than the step of the larger pool or the
///   training beside the smaller one, whichever is longer. If that bound is promising, the size is proposed
///   at which step and training should take equally long.
/// - A family that has not been tried (spread, all siblings, one CPU kind) is first tried at the best size so
///   far, then at the size at which its own step and training should take equally long.
/// - If some training cores stay idle, training may get faster because fewer threads synchronize, and the
///   optimizer gets faster because more bandwidth is left to it. Its roofline shows by how much at most. The
///   most promising such split of each family is tried, about kIdleTries of them in all.
/// - Below the smallest pool that ties with the best, sizes are halved until the next smaller one is slower.
/// Precondition: some of growing_splits() are among `tried`.
std::vector<Split> promising_splits(const std::vector<Home>& homes, const std::vector<TriedSplit>& tried,
                                    double tie);

}  // namespace zf
