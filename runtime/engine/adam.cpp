#include "engine/adam.hpp"

#include <cassert>
#include <cmath>

namespace zf {

AdamProgress advanced(const AdamProgress& progress, const AdamSettings& settings, std::uint64_t step) {
  assert(step >= 1);
  AdamProgress next = progress;
  next.step = step;
  next.beta1 = settings.beta1;
  next.beta2 = settings.beta2;
  const bool same_betas = progress.beta1 == settings.beta1 && progress.beta2 == settings.beta2;
  if (same_betas && step == progress.step + 1) {
    next.beta1_power *= settings.beta1;
    next.beta2_power *= settings.beta2;
  } else {
    const auto exponent = static_cast<double>(step);
    next.beta1_power = static_cast<float>(std::pow(static_cast<double>(settings.beta1), exponent));
    next.beta2_power = static_cast<float>(std::pow(static_cast<double>(settings.beta2), exponent));
  }
  return next;
}

AdamScalars scalars_of(const AdamSettings& settings, const AdamProgress& progress) {
  AdamScalars scalars{};
  scalars.beta1 = settings.beta1;
  scalars.one_minus_beta1 = 1.0F - settings.beta1;
  scalars.beta2 = settings.beta2;
  scalars.one_minus_beta2 = 1.0F - settings.beta2;
  scalars.eps = settings.eps;
  scalars.inv_sqrt_bias2 = 1.0F;
  scalars.step_size = -settings.lr;
  if (settings.bias_correction != 0) {
    scalars.inv_sqrt_bias2 = 1.0F / std::sqrt(1.0F - progress.beta2_power);
    scalars.step_size = -settings.lr / (1.0F - progress.beta1_power);
  }
  scalars.decay =
      settings.mode == AdamMode::adamw ? -settings.lr * settings.weight_decay : settings.weight_decay;
  scalars.grad_scale = settings.grad_scale;
  return scalars;
}

}  // namespace zf
