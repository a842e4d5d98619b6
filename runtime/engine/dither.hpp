// The numbers that decide how a moment is rounded to bf16.
//
// A moment x lies between two neighbours in bf16. Its dither, an integer from 0 to 65535, is added to the
// bits of x, and the upper half of the sum is kept. If all dithers are equally likely, x is expected to stay
// what it is: rounding to nearest would instead lose every change of less than half a unit in the last place,
// such as the decay of v at beta2 = 0.999.
//
// A 32-bit word holds both dithers of an element: the upper half is that of m, the lower half that of v. It
// is dither_of(seed, step) + element * kDitherStride, modulo 2^32. So it depends on nothing but the number of
// the element in its optimizer, the step and the seed. Elements 65,536 apart share the dither of v.
//
// Along the elements the words are a Weyl sequence: one addition a vector. Along the steps they are hashed. A
// Weyl sequence there as well was tried: in v of an embedding row with a gradient once in 1,000 steps it left
// a bias of 0.7 to 1.2 % at beta2 = 0.999 (hashed: less than 0.15 %).
#pragma once

#include <cstdint>

namespace zf {

/// 2^32 divided by the golden ratio, as the nearest prime.
inline constexpr std::uint32_t kDitherStride = 0x9e3779b1U;

/// Returns the word of element 0: the finalizer of SplitMix64: its outputs are uniform. Pure.
constexpr std::uint32_t dither_of(std::uint64_t seed, std::uint64_t step) {
  std::uint64_t x = seed + step * 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return static_cast<std::uint32_t>((x ^ (x >> 31)) >> 32);
}

/// Returns the word of an element, from that of element 0. Pure.
constexpr std::uint32_t dither_at(std::uint32_t first, std::uint64_t element) {
  return first + static_cast<std::uint32_t>(element) * kDitherStride;
}

}  // namespace zf
