#include "abi/scalars.hpp"

#include <cmath>
#include <cstddef>
#include <string_view>

#include "abi/status.hpp"
#include "abi/versioned.hpp"
#include "base/format.hpp"
#include "engine/adam.hpp"

// A release never changes this layout. It only adds members at the end.
static_assert(sizeof(zf_scalars) == 56 && offsetof(zf_scalars, grad_scale) == 32 &&
              offsetof(zf_scalars, mode) == 36 && offsetof(zf_scalars, seed) == 40);

namespace zf {
namespace {

void require(bool good, std::string_view field, double value, std::string_view must) {
  if (good) return;
  throw AbiError(ZF_ERROR_USAGE, format_text("{} is {}; it must be {}", field, value, must));
}

zf_adam read_settings(const zf_adam& given) {
  static constexpr zf_adam defaults = ZF_ADAM_INIT;
  const zf_adam settings = read_versioned(&given, defaults, sizeof defaults, "zf_adam");
  const auto beta = [](double value) { return value >= 0.0 && value < 1.0; };
  const auto weight = [](double value) { return std::isfinite(value) && value >= 0.0; };
  require(settings.reserved == 0, "reserved", settings.reserved, "0");
  require(settings.mode == ZF_ADAM || settings.mode == ZF_ADAMW, "mode", settings.mode,
          "ZF_ADAM or ZF_ADAMW");
  require(std::isfinite(settings.lr), "lr", settings.lr, "finite");
  require(beta(settings.beta1), "beta1", settings.beta1, "in [0, 1)");
  require(beta(settings.beta2), "beta2", settings.beta2, "in [0, 1)");
  require(weight(settings.eps), "eps", settings.eps, "0 or more, and finite");
  require(weight(settings.weight_decay), "weight_decay", settings.weight_decay, "0 or more, and finite");
  return settings;
}

}  // namespace

zf_scalars scalars_of(const zf_adam& given, std::uint64_t step) {
  static_assert(static_cast<int>(AdamMode::adam) == ZF_ADAM && static_cast<int>(AdamMode::adamw) == ZF_ADAMW);
  const zf_adam settings = read_settings(given);
  if (step == 0 || step > kMaxStep)
    throw AbiError(ZF_ERROR_USAGE, format_text("step is {}; it must be 1 to {}", step, kMaxStep));
  const AdamScalars factors = adam_scalars({.lr = settings.lr,
                                            .beta1 = settings.beta1,
                                            .beta2 = settings.beta2,
                                            .eps = settings.eps,
                                            .weight_decay = settings.weight_decay,
                                            .mode = static_cast<AdamMode>(settings.mode),
                                            .bias_correction = settings.bias_correction != 0},
                                           step);
  constexpr std::string_view kFits = "small enough for fp32";
  require(std::isfinite(factors.step_size), "lr", settings.lr, kFits);
  require(std::isfinite(factors.eps), "eps", settings.eps, kFits);
  require(std::isfinite(factors.decay), "weight_decay", settings.weight_decay, kFits);
  return {.beta1 = factors.beta1,
          .one_minus_beta1 = factors.one_minus_beta1,
          .beta2 = factors.beta2,
          .one_minus_beta2 = factors.one_minus_beta2,
          .eps = factors.eps,
          .inv_sqrt_bias2 = factors.inv_sqrt_bias2,
          .step_size = factors.step_size,
          .decay = factors.decay,
          .grad_scale = factors.grad_scale,
          .mode = settings.mode,
          .seed = 0,
          .step = step};
}

zf_scalars read_scalars(const zf_scalars* array, std::size_t index, std::uint32_t size) {
  const zf_scalars scalars = element_of(array, index, size, "scalars");
  const struct {
    const char* name;
    float value;
  } factors[] = {{"beta1", scalars.beta1},
                 {"one_minus_beta1", scalars.one_minus_beta1},
                 {"beta2", scalars.beta2},
                 {"one_minus_beta2", scalars.one_minus_beta2},
                 {"eps", scalars.eps},
                 {"inv_sqrt_bias2", scalars.inv_sqrt_bias2},
                 {"step_size", scalars.step_size},
                 {"decay", scalars.decay},
                 {"grad_scale", scalars.grad_scale}};
  for (const auto& factor : factors) {
    if (std::isfinite(factor.value)) continue;
    throw AbiError(ZF_ERROR_USAGE, format_text("scalars {}: {} is {}; it must be finite", index, factor.name,
                                               static_cast<double>(factor.value)));
  }
  if (scalars.mode != ZF_ADAM && scalars.mode != ZF_ADAMW) {
    throw AbiError(ZF_ERROR_USAGE, format_text("scalars {}: mode is {}; it must be ZF_ADAM or ZF_ADAMW",
                                               index, scalars.mode));
  }
  return scalars;
}

AdamScalars kernel_scalars(const zf_scalars& scalars) {
  return {.beta1 = scalars.beta1,
          .one_minus_beta1 = scalars.one_minus_beta1,
          .beta2 = scalars.beta2,
          .one_minus_beta2 = scalars.one_minus_beta2,
          .eps = scalars.eps,
          .inv_sqrt_bias2 = scalars.inv_sqrt_bias2,
          .step_size = scalars.step_size,
          .decay = scalars.decay,
          .grad_scale = scalars.grad_scale};
}

}  // namespace zf
