#include "engine/adam.hpp"

#include <cassert>
#include <cmath>

namespace zf {

AdamScalars adam_scalars(const AdamSettings& settings, std::uint64_t step) {
  assert(step >= 1);
  const auto bias = [&](double beta) {
    return settings.bias_correction ? 1.0 - std::pow(beta, static_cast<double>(step)) : 1.0;
  };
  const bool is_adamw = settings.mode == AdamMode::adamw;
  return {
      .beta1 = static_cast<float>(settings.beta1),
      .one_minus_beta1 = static_cast<float>(1.0 - settings.beta1),
      .beta2 = static_cast<float>(settings.beta2),
      .one_minus_beta2 = static_cast<float>(1.0 - settings.beta2),
      .eps = static_cast<float>(settings.eps),
      .inv_sqrt_bias2 = static_cast<float>(std::pow(bias(settings.beta2), -0.5)),
      .step_size = static_cast<float>(-settings.lr / bias(settings.beta1)),
      .decay = static_cast<float>(is_adamw ? -settings.lr * settings.weight_decay : settings.weight_decay),
      .grad_scale = 1.0F};
}

}  // namespace zf
