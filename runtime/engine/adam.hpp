// Adam and AdamW as numbers: settings, the bias-correction state, and the scalars of one step.
#pragma once

#include <cstdint>

namespace zf {

enum class AdamMode : std::uint32_t { adam, adamw };  ///< L2 in the gradient, or decoupled weight decay

struct AdamSettings {
  float lr = 1e-3F;
  float beta1 = 0.9F;
  float beta2 = 0.999F;
  float eps = 1e-8F;
  float weight_decay = 0.0F;
  AdamMode mode = AdamMode::adamw;
  bool bias_correction = true;
  float grad_scale = 1.0F;  ///< multiplies every gradient as it is read: unscale × clip
};

/// How far a group has come: the step that was taken last, and the running powers of its betas.
struct AdamProgress {
  std::uint64_t step = 0;
  float beta1 = 0.0F;  ///< the betas that the powers belong to
  float beta2 = 0.0F;
  float beta1_power = 1.0F;
  float beta2_power = 1.0F;
};

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
