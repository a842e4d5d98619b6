#include "engine/half.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace zf {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Returns the value of a half by its definition.
double value_of_f16(std::uint16_t half) {
  const int exponent = (half >> 10) & 0x1f;
  const int fraction = half & 0x3ff;
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return (half & 0x8000) != 0 ? -magnitude : magnitude;
}

/// Rounds to nearest even by the definition: to ten fraction bits, or to units of 2^-24 below 2^-14.
double rounded_to_f16(double x) {
  if (x == 0) return x;
  const int exponent = std::max(std::ilogb(x), -14);
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(x, 10 - exponent)), exponent - 10);
  return std::fabs(rounded) >= 65536.0 ? std::copysign(kInfinity, x) : rounded;
}

TEST(Half, EveryF16IsReadByItsDefinition) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    if ((half & 0x7c00) == 0x7c00) continue;
    ASSERT_EQ(static_cast<double>(f32_of_f16(half)), value_of_f16(half)) << bits;
    ASSERT_EQ(std::signbit(f32_of_f16(half)), (half & 0x8000) != 0);
    ASSERT_EQ(f16_of_f32(f32_of_f16(half)), half);
  }
  EXPECT_EQ(f32_of_f16(0x7c00), kInfinity);
  EXPECT_EQ(f32_of_f16(0xfc00), -kInfinity);
  EXPECT_TRUE(std::isnan(f32_of_f16(0x7c01)));
}

TEST(Half, F16RoundsToNearestEven) {
  std::mt19937 random(1);
  for (int i = 0; i < 2'000'000; ++i) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (std::isnan(x)) {
      ASSERT_TRUE(std::isnan(f32_of_f16(f16_of_f32(x))));
    } else {
      ASSERT_EQ(static_cast<double>(f32_of_f16(f16_of_f32(x))), rounded_to_f16(static_cast<double>(x))) << x;
    }
  }
  // Ties and borders: halfway between neighbours, the smallest and the largest.
  for (std::uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const double low = value_of_f16(static_cast<std::uint16_t>(bits));
    const double high = value_of_f16(static_cast<std::uint16_t>(bits + 1));
    const auto tie = static_cast<float>((low + high) / 2);
    ASSERT_EQ(f16_of_f32(tie), bits + (bits & 1));
    ASSERT_EQ(f16_of_f32(std::nextafter(tie, 0.0F)), bits);
    ASSERT_EQ(f16_of_f32(std::nextafter(tie, kInfinity)), bits + 1);
  }
  EXPECT_EQ(f16_of_f32(65519.996F), 0x7bff);
  EXPECT_EQ(f16_of_f32(65520.0F), 0x7c00);
  EXPECT_EQ(f16_of_f32(-kInfinity), 0xfc00);
}

TEST(Half, Bf16RoundsToNearestEvenAndKeepsNan) {
  for (std::uint32_t bits = 0; bits < 0x7f7f; ++bits) {
    const std::uint32_t tie = (bits << 16) | 0x8000;
    ASSERT_EQ(bf16_of_f32(std::bit_cast<float>(tie - 1)), bits);
    ASSERT_EQ(bf16_of_f32(std::bit_cast<float>(tie)), bits + (bits & 1));
    ASSERT_EQ(bf16_of_f32(std::bit_cast<float>(tie + 1)), bits + 1);
    ASSERT_EQ(f32_of_bf16(static_cast<std::uint16_t>(bits)), std::bit_cast<float>(bits << 16));
  }
  EXPECT_EQ(bf16_of_f32(std::numeric_limits<float>::max()), 0x7f80) << "rounds up to infinity";
  EXPECT_EQ(bf16_of_f32(-kInfinity), 0xff80);
  for (const std::uint32_t nan : {0x7f800001U, 0x7fffffffU, 0xffc00000U, 0xff80ffffU}) {
    EXPECT_TRUE(std::isnan(f32_of_bf16(bf16_of_f32(std::bit_cast<float>(nan))))) << nan;
  }
}

/// Calls check(bits) for patterns that cover all exponents, signs and upper halves, with all kinds of lower
/// ones.
template <class Check>
void for_patterns(Check check) {
  for (std::uint32_t upper = 0; upper < 0x10000; ++upper) {
    for (const std::uint32_t lower : {0U, 1U, 0x1234U, 0x7fffU, 0x8000U, 0x8001U, 0xfffeU, 0xffffU}) {
      check(upper << 16 | lower);
    }
  }
  for (const std::uint32_t upper : {0U, 0x3f80U, 0xbf7fU, 0x7f7fU, 0x8000U, 0xff7fU}) {
    for (std::uint32_t lower = 0; lower < 0x10000; ++lower) check(upper << 16 | lower);
  }
}

TEST(SplitFloat, EveryMasterComesBackExactlyAndNansAreCanonical) {
  for_patterns([](std::uint32_t bits) {
    const auto master = std::bit_cast<float>(bits);
    const auto back = std::bit_cast<std::uint32_t>(f32_of_split(split_of_f32(master)));
    ASSERT_EQ(back, master == master ? bits : kCanonicalNan) << bits;
  });
}

TEST(SplitFloat, HighHalfIsRoundedToNearestWithTiesAwayFromZero) {
  for_patterns([](std::uint32_t bits) {
    const auto master = std::bit_cast<float>(bits);
    if (!(std::fabs(master) <= 3.38e38F)) return;
    const auto high = static_cast<double>(f32_of_bf16(split_of_f32(master).high));
    const auto below = static_cast<double>(std::bit_cast<float>(bits & 0xffff0000U));
    const auto above = static_cast<double>(std::bit_cast<float>((bits & 0xffff0000U) + 0x10000U));
    const double exact = static_cast<double>(master);
    const bool nearer_below = std::fabs(exact - below) < std::fabs(above - exact);
    ASSERT_EQ(high, nearer_below ? below : above) << bits;
  });
  EXPECT_EQ(split_of_f32(std::bit_cast<float>(0x3f808000U)).high, 0x3f81U);
  EXPECT_EQ(split_of_f32(std::bit_cast<float>(0xbf808000U)).high, 0xbf81U);
}

TEST(SplitFloat, WhereTheHalvesDisagreeTheParameterIsTheTruth) {
  EXPECT_EQ(std::bit_cast<std::uint32_t>(f32_of_split({0x0000, 0x8001})), 0U);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(f32_of_split({0x8000, 0xffff})), 0x80000000U);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(f32_of_split({0x7f80, 0x0001})), 0x7f800000U);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(f32_of_split({0x7fff, 0x1234})), kCanonicalNan);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(f32_of_split({0x7f80, 0xffff})), 0x7f7fffffU)
      << "rounds to infinity";
}

TEST(DitheredBf16, RoundsUpInAsManyDithersAsTheFractionSays) {
  for (const std::uint32_t bits :
       {0x3f804000U, 0xbf80c000U, 0x00000001U, 0x00001234U, 0x3f800000U, 0x7f7f0001U}) {
    std::size_t ups = 0;
    for (std::uint32_t dither = 0; dither < 0x10000; ++dither) {
      const std::uint16_t rounded = bf16_dithered(std::bit_cast<float>(bits), dither);
      const std::uint32_t up = rounded - (bits >> 16);
      ASSERT_LE(up, 1U);
      ups += up;
    }
    EXPECT_EQ(ups, bits & 0xffffU) << bits;
  }
}

TEST(DitheredBf16, KeepsInfinitiesAndMakesNansCanonical) {
  for (const std::uint32_t dither : {0U, 1U, 0x8000U, 0xffffU}) {
    EXPECT_EQ(bf16_dithered(std::bit_cast<float>(0x7f800000U), dither), 0x7f80U);
    EXPECT_EQ(bf16_dithered(std::bit_cast<float>(0xff800000U), dither), 0xff80U);
    EXPECT_EQ(bf16_dithered(std::bit_cast<float>(0x7fffffffU), dither), 0xffc0U);
    EXPECT_EQ(bf16_dithered(std::bit_cast<float>(0x7f800001U), dither), 0xffc0U);
    EXPECT_EQ(bf16_dithered(-0.0F, dither), 0x8000U);
  }
}

}  // namespace
}  // namespace zf
