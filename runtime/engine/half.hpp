// Converts bf16 and fp16 in software, by integer arithmetic. The vector lanes must give the same bits.
//
// Narrowing rounds to nearest (ties to even), keeps denormals, and overflows to infinity. A NaN stays a NaN:
// it keeps its sign and the upper bits of its payload, and becomes quiet. The F16C instructions do the same,
// and so do the integer steps of the vector lanes for bf16.
//
// The two ways in which a state format stores fewer bits are here too: a moment that is rounded to bf16 by a
// dither, and a master in two halves.
#pragma once

#include <bit>
#include <cstdint>

namespace zf {

inline float f32_of_bf16(std::uint16_t value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

inline std::uint16_t bf16_of_f32(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const bool nan = (bits & 0x7fffffffU) > 0x7f800000U;
  const std::uint32_t rounded = bits + 0x7fffU + ((bits >> 16) & 1U);
  return static_cast<std::uint16_t>((nan ? bits | 0x400000U : rounded) >> 16);
}

inline float f32_of_f16(std::uint16_t value) {
  const std::uint32_t sign = (value & 0x8000U) << 16;
  const std::uint32_t exponent = (value >> 10) & 0x1fU;
  const std::uint32_t fraction = value & 0x3ffU;
  std::uint32_t magnitude = ((exponent + 112U) << 23) | (fraction << 13);
  if (exponent == 0) magnitude = std::bit_cast<std::uint32_t>(static_cast<float>(fraction) * 0x1p-24F);
  if (exponent == 0x1f) magnitude = 0x7f800000U | (fraction << 13) | (fraction != 0 ? 0x400000U : 0U);
  return std::bit_cast<float>(sign | magnitude);
}

inline std::uint16_t f16_of_f32(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  const auto result = [sign](std::uint32_t half) { return static_cast<std::uint16_t>(sign | half); };

  if (magnitude > 0x7f800000U) return result(0x7e00U | ((magnitude >> 13) & 0x3ffU));  // NaN
  if (magnitude >= 0x477ff000U) return result(0x7c00U);                                // 65520 and above
  if (magnitude >= 0x38800000U) {                                                      // 2^-14: a normal half
    return result((magnitude + 0xfffU + ((magnitude >> 13) & 1U) - 0x38000000U) >> 13);
  }
  if (magnitude <= 0x33000000U) return result(0);  // 2^-25 and below
  const std::uint32_t shift = 126U - (magnitude >> 23);
  const std::uint32_t significand = (magnitude & 0x7fffffU) | 0x800000U;
  const std::uint32_t rest = significand & ((1U << shift) - 1U);
  const std::uint32_t tie = 1U << (shift - 1U);
  const std::uint32_t half = significand >> shift;
  return result(half + (rest > tie || (rest == tie && (half & 1U) != 0) ? 1U : 0U));
}

inline constexpr std::uint32_t kCanonicalNan = 0xffc00000U;  ///< the one that x86 makes

/// Returns `value` rounded up in magnitude with the probability of the fraction that bf16 has no room for, if
/// all dithers from 0 to 65535 are equally likely. What fits into bf16 stays as it is. NaNs become canonical.
inline std::uint16_t bf16_dithered(float value, std::uint32_t dither) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((value == value ? bits + dither : kCanonicalNan) >> 16);
}

/// An fp32 master in halves. `high` is it rounded to bf16, ties away from zero. `low` are its lower bits.
struct SplitFloat {
  std::uint16_t high;
  std::uint16_t low;
  bool operator==(const SplitFloat&) const = default;
};

/// Splits a master. NaNs become canonical.
inline SplitFloat split_of_f32(float value) {
  const std::uint32_t bits = value == value ? std::bit_cast<std::uint32_t>(value) : kCanonicalNan;
  return {static_cast<std::uint16_t>((bits + 0x8000U) >> 16), static_cast<std::uint16_t>(bits)};
}

/// Joins the halves: the inverse of split_of_f32(). Halves that are not those of any master mean that
/// the program has written `high`: then the result is `high`, widened. NaNs become canonical.
inline float f32_of_split(SplitFloat halves) {
  const auto low = static_cast<std::uint32_t>(static_cast<std::int16_t>(halves.low));
  const auto joined = std::bit_cast<float>((static_cast<std::uint32_t>(halves.high) << 16) + low);
  if (joined == joined) return joined;
  const float high = f32_of_bf16(halves.high);
  return high == high ? high : std::bit_cast<float>(kCanonicalNan);
}

}  // namespace zf
