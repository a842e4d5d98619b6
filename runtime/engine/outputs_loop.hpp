// Writes the outputs of a step again, from the new p. Included as adam_loop.hpp is, under its rules.
#pragma once

#include "engine/adam_loop.hpp"

namespace zf {
namespace {

template <class Lane, ElementType kCopy, bool kStale>
void write_outputs(const AdamArrays& arrays) {
  const size_t rest = arrays.n % Lane::width;
  const size_t whole = arrays.n - rest;
  const float* const p_base = static_cast<const float*>(arrays.p);
  for (size_t i = 0; i < whole; i += Lane::width) {
    const auto p = Lane::load(p_base + i);
    if constexpr (kStale) Lane::stream(arrays.stale + i, p);
    if constexpr (kCopy != ElementType::none) Lane::template stream_copy<kCopy>(arrays.copy, i, p);
  }
  if (rest != 0) {
    alignas(64) float padded[Lane::width] = {};
    alignas(64) unsigned char copy[Lane::width * 2];
    memcpy(padded, p_base + whole, rest * sizeof(float));
    if constexpr (kStale) memcpy(arrays.stale + whole, padded, rest * sizeof(float));
    if constexpr (kCopy != ElementType::none) {
      Lane::template stream_copy<kCopy>(copy, 0, Lane::load(padded));
      memcpy(static_cast<char*>(arrays.copy) + whole * 2, copy, rest * 2);
    }
  }
  Lane::fence();
}

template <class Lane, ElementType kCopy>
OutputKernel outputs_by_stale(bool stale) {
  return stale ? write_outputs<Lane, kCopy, true> : write_outputs<Lane, kCopy, false>;
}

template <class Lane>
OutputKernel outputs_of(const KernelVariant& variant) {
  assert(variant.copy == ElementType::none || !has_split_masters(variant.format));
  return by_type(variant.copy, outputs_by_stale<Lane, ElementType::bf16>(variant.stale),
                 outputs_by_stale<Lane, ElementType::f16>(variant.stale),
                 outputs_by_stale<Lane, ElementType::none>(variant.stale));
}

}  // namespace
}  // namespace zf
