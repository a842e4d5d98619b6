// How a count of reserved PUs is written down so that DeepSpeed reads the same count back. Pure.
#pragma once

#include <algorithm>
#include <cmath>

namespace zf {

/// What DeepSpeed 0.19.6 (zenflow_utils.py) makes of `pt_reserved_cores_perc`: of a rank's `all_pus` CPUs in
/// ascending order, this many go to training and the rest to the optimizer. If either side comes out empty,
/// both share all.
inline int pus_deepspeed_reserves(double perc, int all_pus) {
  return std::clamp(static_cast<int>(std::ceil(perc * all_pus)), 0, all_pus);
}

/// The fraction that pus_deepspeed_reserves turns back into `training_pus`, for every all_pus up to 512 and
/// far beyond. training_pus / all_pus would not: ceil() makes one too many of hundreds of pairs, for the
/// product is not exact; half a PU less is far from any rounding. A shared rank (training_pus == all_pus)
/// gets a fraction that leaves the optimizer's side empty, which DeepSpeed takes as: share all. Precondition:
/// 1 <= training_pus <= all_pus.
inline double reserved_perc(int training_pus, int all_pus) { return (training_pus - 0.5) / all_pus; }

}  // namespace zf
