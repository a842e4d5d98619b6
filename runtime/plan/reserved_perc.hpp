// Writes a count of reserved PUs as a fraction that DeepSpeed turns back into the same count. Pure.
#pragma once

#include <algorithm>
#include <cmath>

namespace zf {

/// Returns how many of a rank's `all_pus` CPUs, in ascending order, DeepSpeed 0.19.8 (zenflow_utils.py) gives
/// to training for this `pt_reserved_cores_perc`. The rest goes to the optimizer. If either side would be
/// empty, both share all CPUs.
inline int pus_deepspeed_reserves(double perc, int all_pus) {
  return std::clamp(static_cast<int>(std::ceil(perc * all_pus)), 0, all_pus);
}

/// Returns the fraction that pus_deepspeed_reserves() turns back into `training_pus`, for every all_pus up to
/// 512 and far beyond. The plain quotient training_pus / all_pus would not do: its product with all_pus is
/// not exact, and for hundreds of pairs ceil() gives one PU too many. Subtracting half a PU keeps away from
/// any rounding. For a shared rank (training_pus == all_pus) the fraction leaves the optimizer's side empty,
/// which makes DeepSpeed share all CPUs. Precondition: 1 <= training_pus <= all_pus.
inline double reserved_perc(int training_pus, int all_pus) { return (training_pus - 0.5) / all_pus; }

}  // namespace zf
