// Proposes the splits to measure after the controls: those that could be better. Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "homes/split.hpp"
#include "plan/period.hpp"
#include "search/controls.hpp"
#include "search/families.hpp"

namespace zf {

/// Returns at most `most` splits with a risk (decision.hpp) that could be lower than that of the safest one
/// tried by more than kSameRisk of `tie`, the least risk first. Returns none if by this reasoning none could:
/// - In one family (families.hpp), a larger pool steps faster and makes training slower. So between two tried
///   sizes, no risk is lower than with the faster step and the faster training of the two. If that bound is
///   promising, the size is proposed at which the forecast risk is least. Where training hides the step, that
///   is where the curves of the two sides cross.
/// - Beyond the tried sizes the forecast is optimistic: the step goes with 1 / size, training with its cores.
/// - A family that has not been tried (spread, all siblings, one CPU kind) is first tried at the best size of
///   the plain family, if a step kFamilyGain times as fast as the roofline loop would pay.
/// - If fewer cores train, so that an L3 group is the pool's alone, the optimizer may get faster. Its
/// roofline
///   shows by how much at most.
/// - Without training, and in mode wait, a size below the smallest that ties with the fastest split.
/// Precondition: the controls are among `tried`.
std::vector<Split> promising_splits(const std::vector<Home>& homes, const std::vector<TriedSplit>& tried,
                                    const Schedule& schedule, double tie, std::size_t most,
                                    SharedPools shared_pools);

}  // namespace zf
