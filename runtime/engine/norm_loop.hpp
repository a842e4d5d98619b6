// Computes sums of squares for any Lane. Included as adam_loop.hpp is, under its rules.
//
// Beside the members that adam_loop.hpp lists, a Lane has: D (double_width doubles), zero(), store_double,
// and add_squares(sums, g), which adds the squares of g's floats [k·double_width, (k+1)·double_width) to
// sums[k].
#pragma once

#include "engine/adam_loop.hpp"
#include "engine/gradient_norm.hpp"

namespace zf {
namespace {

constexpr size_t kSums = 16;

template <class Lane, ElementType kGrad>
void add_sixteen(typename Lane::D* sums, const void* g, size_t i) {
  for (size_t k = 0; k < kSums; k += Lane::width) {
    Lane::add_squares(sums + k / Lane::double_width, Lane::template load_grad<kGrad>(g, i + k));
  }
}

template <class Lane, ElementType kGrad>
double block_sum(const void* g, size_t begin, size_t end) {
  typename Lane::D sums[kSums / Lane::double_width];
  for (auto& sum : sums) sum = Lane::zero();
  const size_t rest = (end - begin) % kSums;
  for (size_t i = begin; i < end - rest; i += kSums) add_sixteen<Lane, kGrad>(sums, g, i);
  if (rest != 0) {
    alignas(64) unsigned char padded[kSums * size_of(kGrad)] = {};
    memcpy(padded, static_cast<const char*>(g) + (end - rest) * size_of(kGrad), rest * size_of(kGrad));
    add_sixteen<Lane, kGrad>(sums, padded, 0);
  }
  double lanes[kSums];
  for (size_t k = 0; k < kSums; k += Lane::double_width) {
    Lane::store_double(lanes + k, sums[k / Lane::double_width]);
  }
  for (size_t half = kSums / 2; half != 0; half /= 2) {
    for (size_t k = 0; k < half; ++k) lanes[k] += lanes[k + half];
  }
  return lanes[0];
}

template <class Lane, ElementType kGrad>
void sum_blocks(const void* g, size_t n, double* block_sums) {
  const StandardFloats standard_floats;
  for (size_t begin = 0; begin < n; begin += kNormBlock) {
    const size_t end = n - begin < kNormBlock ? n : begin + kNormBlock;
    *block_sums++ = block_sum<Lane, kGrad>(g, begin, end);
  }
}

template <class Lane>
NormKernel norm_kernel_of(ElementType type) {
  return by_type<NormKernel>(type, sum_blocks<Lane, ElementType::bf16>, sum_blocks<Lane, ElementType::f16>,
                             sum_blocks<Lane, ElementType::f32>);
}

}  // namespace
}  // namespace zf
