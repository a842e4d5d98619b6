#include "engine/gradient_norm.hpp"

#include <cmath>

#include "engine/instruction_sets.hpp"

namespace zf {

NormKernel norm_kernel(Isa isa, ElementType type) { return kernels_of(isa).norm(type); }

GradientNorm gradient_norm(std::span<const double> block_sums) {
  double sum = 0.0;
  for (const double block_sum : block_sums) sum += block_sum;
  return {.sum_of_squares = sum, .finite = std::isfinite(sum) ? 1U : 0U};
}

}  // namespace zf
