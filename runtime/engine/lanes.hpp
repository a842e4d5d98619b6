// The functions of each kernel_<isa>.cpp that kernel.cpp and gradient_norm.cpp select from. Private to the
// engine.
#pragma once

#include "engine/gradient_norm.hpp"
#include "engine/kernel.hpp"

namespace zf {

AdamKernel adam_kernel_scalar(const KernelVariant& variant);
OutputKernel output_kernel_scalar(const KernelVariant& variant);
void roofline_pass_scalar(const AdamArrays& arrays);
NormKernel norm_kernel_scalar(ElementType type);

#if defined(__x86_64__)
AdamKernel adam_kernel_avx2(const KernelVariant& variant);
OutputKernel output_kernel_avx2(const KernelVariant& variant);
void roofline_pass_avx2(const AdamArrays& arrays);
NormKernel norm_kernel_avx2(ElementType type);

AdamKernel adam_kernel_avx512(const KernelVariant& variant);
OutputKernel output_kernel_avx512(const KernelVariant& variant);
void roofline_pass_avx512(const AdamArrays& arrays);
NormKernel norm_kernel_avx512(ElementType type);
#elif defined(__aarch64__)
AdamKernel adam_kernel_neon(const KernelVariant& variant);
OutputKernel output_kernel_neon(const KernelVariant& variant);
void roofline_pass_neon(const AdamArrays& arrays);
NormKernel norm_kernel_neon(ElementType type);
#endif

}  // namespace zf
