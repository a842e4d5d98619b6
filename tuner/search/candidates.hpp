// Proposes the splits to measure after the controls: those that could be better. Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "homes/split.hpp"
#include "plan/period.hpp"
#include "search/controls.hpp"
#include "search/families.hpp"

namespace zf {

/// About how many splits with idle cores are tried in a sweep.
inline constexpr int kIdleTries = 2;

/// Returns at most `most` splits that could beat the best one tried by more than half of `tie`, most
/// promising first, and those that could tie with the best and be preferred to it. Returns none if by this
/// reasoning none could:
/// - In one family (families.hpp), a larger pool steps faster and makes training slower. So between two tried
///   sizes, no period is shorter than with the faster step and the faster training of the two. If that bound
///   is promising, the size is proposed at which the forecast period is shortest. Where training hides the
///   step, that is where the curves of the two sides cross.
/// - Beyond the tried sizes the forecast is optimistic: the step goes with 1 / size, training with its cores.
/// - A family that has not been tried (spread, all siblings, one CPU kind) is first tried at the best size of
///   the plain family, if a step 1.3 times as fast as the roofline loop would pay.
/// - If some training cores stay idle, the optimizer gets faster because more bandwidth is left to it. Its
///   roofline shows by how much at most. The most promising such split is tried, kIdleTries of them in all.
/// - Ties: preferred_ties.hpp.
/// Precondition: the controls are among `tried`.
std::vector<Split> promising_splits(const std::vector<Home>& homes, const std::vector<TriedSplit>& tried,
                                    const Schedule& schedule, double tie, std::size_t most,
                                    SharedPools shared_pools);

}  // namespace zf
