// Which splits are worth a visit: first a coarse look, then where a better one could still hide. Pure.
#pragma once

#include <vector>

#include "homes/split.hpp"

namespace zf {

/// unbound, half and half, two reserved: as many of them as differ from each other on these homes.
std::vector<Split> control_splits(const std::vector<Home>& homes);

/// Pools of 1, 2, 3, 4, 6, 8, 12, 16, … cores up to the smallest home's minus one (which is always among
/// them), compact, one PU per core. Those that are a control already are left out.
std::vector<Split> growing_splits(const std::vector<Home>& homes);

/// A split that has been measured; medians.
struct TriedSplit {
  Split split;
  double step_ns = 0;             ///< the optimizer's side of the period
  double roofline_ns = 0;         ///< the step's, if training took no bandwidth
  double training_window_ns = 0;  ///< the training side: update_interval training steps; 0: no training side
  double period_ns() const;
};

/// At most this many at a time.
inline constexpr std::size_t kMaxProposals = 4;
inline constexpr int kIdleTries = 6;

/// Splits that could beat the best one tried by more than half of `tie`, most promising first, and one that
/// could be a smaller pool as fast as the best. Empty: none could, as far as this reasoning goes:
/// - In one family (same placement, PUs per core, CPU kind) a larger pool steps faster and leaves training
///   slower. So between two tried sizes no period is below the longer of the larger one's step and the
///   smaller one's training; where that is promising, the size is taken where the two sides meet.
/// - A family that has not been tried (spread, all siblings, one CPU kind) is first tried at the best size so
///   far, then where its own step would meet the training side.
/// - With fewer cores for training and the others idle, training may get faster (less to synchronize), and
/// the
///   optimizer will (more bandwidth is left to it, by as much as its roofline beside it shows). The most
///   promising such split of each family is tried, about kIdleTries of them in all.
/// - Below the smallest pool that ties with the best, sizes are halved until the next smaller one is slower.
/// Precondition: the growing splits, or some of them, are among `tried`.
std::vector<Split> promising_splits(const std::vector<Home>& homes, const std::vector<TriedSplit>& tried,
                                    double tie);

}  // namespace zf
