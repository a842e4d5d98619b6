// Adam and AdamW as numbers: settings, the bias-correction state, and the scalars of one step.
#pragma once

#include <cstdint>

#include "base/step_types.hpp"

namespace zf {

/// What the kernel multiplies with. Formulas: docs/kernel.md.
struct AdamScalars {
  float beta1, one_minus_beta1;
  float beta2, one_minus_beta2;
  float eps;
  float inv_sqrt_bias2;  ///< 1 / sqrt(1 - β2^t)
  float step_size;       ///< -lr / (1 - β1^t)
  float decay;           ///< AdamW: -lr·λ; Adam: λ
  float grad_scale;
};

/// The progress after `step`: powers multiplied on consecutive steps with unchanged betas, float(pow(β,
/// step)) on a jump. Pure. Precondition: step >= 1.
AdamProgress advanced(const AdamProgress& progress, const AdamSettings& settings, std::uint64_t step);

/// The scalars of the step that `progress` has just been advanced to. Pure.
AdamScalars scalars_of(const AdamSettings& settings, const AdamProgress& progress);

}  // namespace zf
