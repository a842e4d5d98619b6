#include "engine/gradient_norm.hpp"

#include <cassert>
#include <cmath>

#include "engine/lanes.hpp"

namespace zf {

NormKernel norm_kernel(Isa isa, ElementType type) {
  assert(is_supported(isa));
#if defined(__x86_64__)
  if (isa == Isa::avx512) return norm_kernel_avx512(type);
  if (isa == Isa::avx2) return norm_kernel_avx2(type);
#elif defined(__aarch64__)
  if (isa == Isa::neon) return norm_kernel_neon(type);
#endif
  return norm_kernel_scalar(type);
}

GradientNorm gradient_norm(std::span<const double> block_sums) {
  double sum = 0.0;
  for (const double block_sum : block_sums) sum += block_sum;
  return {.sum_of_squares = sum, .finite = std::isfinite(sum) ? 1U : 0U};
}

}  // namespace zf
