// Selects the kernel for an instruction set and a variant.
#include "engine/kernel.hpp"

#include <cassert>

#include "engine/lanes.hpp"

namespace zf {

AdamKernel adam_kernel(Isa isa, const KernelVariant& variant) {
  assert(is_supported(isa));
#if defined(__x86_64__)
  if (isa == Isa::avx512) return adam_kernel_avx512(variant);
  if (isa == Isa::avx2) return adam_kernel_avx2(variant);
#elif defined(__aarch64__)
  if (isa == Isa::neon) return adam_kernel_neon(variant);
#endif
  return adam_kernel_scalar(variant);
}

OutputKernel output_kernel(Isa isa, const KernelVariant& variant) {
  assert(is_supported(isa));
#if defined(__x86_64__)
  if (isa == Isa::avx512) return output_kernel_avx512(variant);
  if (isa == Isa::avx2) return output_kernel_avx2(variant);
#elif defined(__aarch64__)
  if (isa == Isa::neon) return output_kernel_neon(variant);
#endif
  return output_kernel_scalar(variant);
}

void roofline_pass(Isa isa, const AdamArrays& arrays) {
#if defined(__x86_64__)
  if (isa == Isa::avx512) return roofline_pass_avx512(arrays);
  if (isa == Isa::avx2) return roofline_pass_avx2(arrays);
#elif defined(__aarch64__)
  if (isa == Isa::neon) return roofline_pass_neon(arrays);
#endif
  roofline_pass_scalar(arrays);
}

}  // namespace zf
