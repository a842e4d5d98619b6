#include "abi/scalars.hpp"

#include <cmath>
#include <cstddef>

#include "abi/status.hpp"
#include "abi/versioned.hpp"
#include "base/format.hpp"

// A release never changes this layout. It only adds members at the end.
static_assert(sizeof(zf_scalars) == 56 && offsetof(zf_scalars, grad_scale) == 32 &&
              offsetof(zf_scalars, mode) == 36 && offsetof(zf_scalars, seed) == 40);

namespace zf {

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
