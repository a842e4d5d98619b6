// Tests that bf16 moments stay, on average, what float64 makes of them, where rounding to nearest does not.
// Every bound is one that rounding to nearest breaks, which is tested beside it.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "kernel_fixture.hpp"

namespace zf {
namespace {

constexpr std::size_t kElements = 1024;
constexpr double kTolerance = 0.02;  // of means over so many elements

enum class Rounding { dithered, nearest };

/// The gradient of an element in a step.
using Gradient = std::function<float(std::size_t element, std::uint64_t step)>;

struct Betas {
  float beta1, beta2;
};

/// Means over all elements after the last step.
struct Means {
  double m = 0, v = 0;              ///< of the kernel's moments
  double exact_m = 0, exact_v = 0;  ///< in float64
  double worst_v = 0;               ///< largest |v / exact v - 1|
  std::size_t not_finite = 0;
};

/// Steps all elements by the kernel of bf16 moments. For Rounding::nearest by that of fp32 moments, which are
/// then rounded to nearest.
Means run(const Betas& betas, std::uint64_t steps, const Gradient& gradient, Rounding rounding, float first_m,
          float first_v) {
  KernelVariant variant;
  variant.format = rounding == Rounding::dithered ? StateFormat::bf16 : StateFormat::fp32;
  TestState state;
  state.p.assign(kElements, 1.0F);
  state.m.assign(kElements, first_m);
  state.v.assign(kElements, first_v);
  state.g32.assign(kElements, 0.0F);
  to_format(state, StateFormat::bf16);
  from_format(state, StateFormat::bf16);
  std::vector<double> m(state.m.begin(), state.m.end());
  std::vector<double> v(state.v.begin(), state.v.end());
  AdamSettings settings;
  settings.beta1 = betas.beta1;
  settings.beta2 = betas.beta2;
  const AdamKernel kernel = adam_kernel(chosen_isa(), variant);
  for (std::uint64_t step = 1; step <= steps; ++step) {
    const AdamScalars scalars = adam_scalars(settings, step);
    for (std::size_t i = 0; i < kElements; ++i) {
      const float g = gradient(i, step);
      state.g32[i] = g;
      m[i] = m[i] * static_cast<double>(scalars.beta1) +
             static_cast<double>(scalars.one_minus_beta1) * static_cast<double>(g);
      v[i] = v[i] * static_cast<double>(scalars.beta2) +
             static_cast<double>(scalars.one_minus_beta2) * static_cast<double>(g) * static_cast<double>(g);
    }
    AdamArrays arrays = state.arrays(variant, 0, kElements);
    arrays.dither = dither_of(3, step);
    kernel(scalars, arrays);
    if (rounding == Rounding::nearest) {
      to_format(state, StateFormat::bf16);
      from_format(state, StateFormat::bf16);
    }
  }
  if (rounding == Rounding::dithered) from_format(state, StateFormat::bf16);
  Means means;
  for (std::size_t i = 0; i < kElements; ++i) {
    means.m += static_cast<double>(state.m[i]) / kElements;
    means.v += static_cast<double>(state.v[i]) / kElements;
    means.exact_m += m[i] / kElements;
    means.exact_v += v[i] / kElements;
    if (v[i] > 0)
      means.worst_v = std::max(means.worst_v, std::fabs(static_cast<double>(state.v[i]) / v[i] - 1));
    if (!std::isfinite(state.p[i]) || !std::isfinite(state.m[i]) || !std::isfinite(state.v[i]))
      ++means.not_finite;
  }
  return means;
}

float normal_at(std::size_t element, std::uint64_t step) {
  std::uint64_t x = (step << 20) + element;
  const double a = static_cast<double>(dither_of(x, 1)) + 1;
  const double b = static_cast<double>(dither_of(x, 2));
  return static_cast<float>(std::sqrt(-2 * std::log(a * 0x1p-32)) *
                            std::cos(b * 0x1p-32 * 6.283185307179586));
}

class SecondMoment : public testing::TestWithParam<float> {};

TEST_P(SecondMoment, DecaysAsFarAsInFloat64AndRoundingToNearestDoesNot) {
  const Betas betas = {0.9F, GetParam()};
  const auto steps = static_cast<std::uint64_t>(3 / (1 - static_cast<double>(GetParam())));
  const Gradient none = [](std::size_t, std::uint64_t) { return 0.0F; };
  const Means dithered = run(betas, steps, none, Rounding::dithered, 0, 1e-6F);
  EXPECT_NEAR(dithered.v / dithered.exact_v, 1, kTolerance);
  EXPECT_LT(dithered.exact_v, 0.4e-6);
  EXPECT_LT(dithered.worst_v, 0.7);
  const Means nearest = run(betas, steps, none, Rounding::nearest, 0, 1e-6F);
  EXPECT_GT(nearest.v / nearest.exact_v, 2) << "v got smaller, so this test could not tell";
}

TEST_P(SecondMoment, GrowsAsFarAsInFloat64AndRoundingToNearestDoesNot) {
  const Betas betas = {0.9F, GetParam()};
  const auto steps = static_cast<std::uint64_t>(3 / (1 - static_cast<double>(GetParam())));
  const Gradient same = [](std::size_t, std::uint64_t) { return 1e-3F; };
  const Means dithered = run(betas, steps, same, Rounding::dithered, 0, 0);
  EXPECT_NEAR(dithered.v / dithered.exact_v, 1, kTolerance);
  EXPECT_LT(dithered.worst_v, 0.25);
  const Means nearest = run(betas, steps, same, Rounding::nearest, 0, 0);
  EXPECT_LT(nearest.v / nearest.exact_v, 0.5);
}

INSTANTIATE_TEST_SUITE_P(MomentBias, SecondMoment, testing::Values(0.999F, 0.9999F));

TEST(MomentBias, TenThousandTinyUpdatesLeaveTheMeansOfFloat64) {
  // Each update changes m and v by about 0.001 of themselves: less than half a unit in the last place.
  const Betas betas = {0.999F, 0.999F};
  const Gradient tiny = [](std::size_t i, std::uint64_t step) { return 1e-6F * (2 + normal_at(i, step)); };
  const std::uint64_t steps = 10'000;
  const Means dithered = run(betas, steps, tiny, Rounding::dithered, 0, 0);
  EXPECT_NEAR(dithered.m / dithered.exact_m, 1, kTolerance / 4);
  EXPECT_NEAR(dithered.v / dithered.exact_v, 1, kTolerance / 4);
  const Means nearest = run(betas, steps, tiny, Rounding::nearest, 0, 0);
  EXPECT_GT(std::fabs(nearest.m / nearest.exact_m - 1), 0.1);
  EXPECT_GT(std::fabs(nearest.v / nearest.exact_v - 1), 0.1);
}

TEST(MomentBias, ZerosStayZero) {
  const Gradient none = [](std::size_t, std::uint64_t) { return 0.0F; };
  const Means means = run({0.9F, 0.999F}, 500, none, Rounding::dithered, 0, 0);
  EXPECT_EQ(means.m, 0);
  EXPECT_EQ(means.v, 0);
  EXPECT_EQ(means.not_finite, 0U);
}

TEST(MomentBias, OutliersFadeAsInFloat64) {
  const Gradient outliers = [](std::size_t i, std::uint64_t step) {
    return step == 1 + i % 50 ? 1e4F : 1e-3F * normal_at(i, step);
  };
  const Means dithered = run({0.9F, 0.999F}, 4000, outliers, Rounding::dithered, 0, 0);
  EXPECT_NEAR(dithered.v / dithered.exact_v, 1, kTolerance);
  EXPECT_EQ(dithered.not_finite, 0U);
  const Means nearest = run({0.9F, 0.999F}, 4000, outliers, Rounding::nearest, 0, 0);
  EXPECT_GT(nearest.v / nearest.exact_v, 2);
}

TEST(MomentBias, DenormalMomentsKeepTheirMeans) {
  // v is about 1e-39: bf16 has 7 bits fewer there as well, and 9.2e-41 is its least number.
  const Gradient tiny = [](std::size_t, std::uint64_t) { return 3e-20F; };
  const Means dithered = run({0.9F, 0.999F}, 6000, tiny, Rounding::dithered, 0, 0);
  EXPECT_NEAR(dithered.v / dithered.exact_v, 1, kTolerance);
  const Means nearest = run({0.9F, 0.999F}, 6000, tiny, Rounding::nearest, 0, 0);
  EXPECT_EQ(nearest.v, 0);
}

TEST(MomentBias, RowsOfAnEmbeddingWithAGradientOnceInAThousandStepsKeepTheirMeans) {
  const Gradient rare = [](std::size_t i, std::uint64_t step) {
    return step % 1000 == i % 1000 ? 1e-2F * normal_at(i, step) : 0.0F;
  };
  const std::uint64_t steps = 10'000;
  const Means dithered = run({0.9F, 0.999F}, steps, rare, Rounding::dithered, 0, 0);
  EXPECT_NEAR(dithered.v / dithered.exact_v, 1, kTolerance);
  const Means nearest = run({0.9F, 0.999F}, steps, rare, Rounding::nearest, 0, 0);
  EXPECT_GT(nearest.v / nearest.exact_v, 2);
}

TEST(Dither, BothHalvesAreUniformAlongTheSteps) {
  constexpr std::size_t kBins = 64;
  constexpr std::uint64_t kSteps = 64'000;
  for (const std::uint64_t element : {std::uint64_t{0}, std::uint64_t{12345}}) {
    std::array<std::size_t, kBins> upper = {};
    std::array<std::size_t, kBins> lower = {};
    for (std::uint64_t step = 1; step <= kSteps; ++step) {
      const std::uint32_t word = dither_at(dither_of(0, step), element);
      ++upper[word >> 26];
      ++lower[(word & 0xffffU) >> 10];
    }
    for (std::size_t bin = 0; bin < kBins; ++bin) {  // 1,000 are expected, and 32 are a standard deviation
      EXPECT_NEAR(static_cast<double>(upper[bin]), 1000, 150);
      EXPECT_NEAR(static_cast<double>(lower[bin]), 1000, 150);
    }
  }
}

TEST(Dither, DependsOnSeedStepAndElement) {
  EXPECT_NE(dither_of(0, 1), dither_of(0, 2));
  EXPECT_NE(dither_of(0, 1), dither_of(1, 1));
  EXPECT_EQ(dither_at(dither_of(0, 1), 3), dither_of(0, 1) + 3 * kDitherStride);
  EXPECT_EQ(dither_of(0, 1), 0xe220a839U) << "state files and other machines rely on it";
}

}  // namespace
}  // namespace zf
