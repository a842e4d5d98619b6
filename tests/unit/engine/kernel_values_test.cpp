// Compares the kernel's numbers with the published recipe, restated here, and with float64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/kernel.hpp"
#include "kernel_fixture.hpp"

namespace zf {
namespace {

struct Recipe {
  float lr, beta1, beta2, eps, lambda;
  bool decoupled;
};

/// Takes a step of the recipe of DeepSpeed's CPU Adam on full vectors. Written from docs/arithmetic.md alone.
void recipe_step(const AdamScalars& s, bool decoupled, float g, float& p, float& m, float& v) {
  if (s.decay != 0 && !decoupled) g = std::fma(p, s.decay, g);
  m = std::fma(g, s.one_minus_beta1, m * s.beta1);
  const float square = g * g;
  v = std::fma(square, s.one_minus_beta2, v * s.beta2);
  const float d = std::fma(std::sqrt(v), s.inv_sqrt_bias2, s.eps);
  const float u = m / d;
  if (s.decay != 0 && decoupled) p = std::fma(p, s.decay, p);
  p = std::fma(u, s.step_size, p);
}

class AdamValues : public testing::TestWithParam<std::tuple<AdamMode, float>> {
 protected:
  Recipe recipe() const {
    const auto [mode, lambda] = GetParam();
    return {2e-3F, 0.9F, 0.99F, 1e-8F, lambda, mode == AdamMode::adamw};
  }
  AdamSettings settings() const {
    const Recipe r = recipe();
    AdamSettings settings;
    settings.lr = r.lr;
    settings.beta1 = r.beta1;
    settings.beta2 = r.beta2;
    settings.eps = r.eps;
    settings.weight_decay = r.lambda;
    settings.mode = std::get<0>(GetParam());
    return settings;
  }
  KernelVariant variant() const {
    return {ElementType::f32, ElementType::none, false, settings().mode, settings().weight_decay != 0.0F};
  }
  /// Returns gradient i of step t, the same for every array that is compared.
  static float gradient(std::size_t i, std::uint64_t t) {
    return 1e-2F * std::sin(static_cast<float>(i) * 0.7F + static_cast<float>(t) * 1.3F);
  }
};

TEST_P(AdamValues, AgreeWithTheRecipeBitForBit) {
  for (const Isa isa : supported_isas()) {
    TestState state = random_state(4096, ElementType::f32, 23, false);
    TestState expected = state;
    for (std::uint64_t t = 1; t <= 100; ++t) {
      for (std::size_t i = 0; i < state.g32.size(); ++i) state.g32[i] = gradient(i, t);
      const AdamScalars scalars = adam_scalars(settings(), t);
      adam_kernel(isa, variant())(scalars, state.arrays(variant(), 0, state.p.size()));
      for (std::size_t i = 0; i < state.g32.size(); ++i) {
        recipe_step(scalars, recipe().decoupled, state.g32[i], expected.p[i], expected.m[i], expected.v[i]);
      }
      ASSERT_TRUE(state == expected) << name_of(isa) << " step " << t;
    }
  }
}

TEST_P(AdamValues, Float64BoundsTheErrorOverHundredSteps) {
  // Float64 all through, from the paper's formulas: Kingma and Ba 2015; Loshchilov and Hutter 2019.
  const Recipe r = recipe();
  TestState state = random_state(4096, ElementType::f32, 29, false);
  std::fill(state.m.begin(), state.m.end(), 0.0F);
  std::fill(state.v.begin(), state.v.end(), 0.0F);
  std::vector<double> p(state.p.begin(), state.p.end());
  std::vector<double> m(p.size());
  std::vector<double> v(p.size());
  for (std::uint64_t t = 1; t <= 100; ++t) {
    for (std::size_t i = 0; i < p.size(); ++i) state.g32[i] = gradient(i, t);
    adam_kernel(chosen_isa(), variant())(adam_scalars(settings(), t),
                                         state.arrays(variant(), 0, state.p.size()));
    const double beta1 = r.beta1;
    const double beta2 = r.beta2;
    for (std::size_t i = 0; i < p.size(); ++i) {
      double g = state.g32[i];
      if (!r.decoupled) g += r.lambda * p[i];
      m[i] = beta1 * m[i] + (1 - beta1) * g;
      v[i] = beta2 * v[i] + (1 - beta2) * g * g;
      const double m_hat = m[i] / (1 - std::pow(beta1, static_cast<double>(t)));
      const double v_hat = v[i] / (1 - std::pow(beta2, static_cast<double>(t)));
      if (r.decoupled) p[i] -= static_cast<double>(r.lr) * r.lambda * p[i];
      p[i] -= r.lr * m_hat / (std::sqrt(v_hat) + r.eps);
    }
  }
  double worst = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    // The deviation of a parameter in units of lr; each step moves it by lr or less.
    const double rounding = std::max(1.0, std::fabs(p[i])) * 0x1p-24 * 100;
    worst = std::max(worst, (std::fabs(static_cast<double>(state.p[i]) - p[i]) - rounding) / r.lr);
  }
  EXPECT_LT(worst, 1e-2);
}

INSTANTIATE_TEST_SUITE_P(Modes, AdamValues,
                         testing::Combine(testing::Values(AdamMode::adam, AdamMode::adamw),
                                          testing::Values(0.0F, 0.1F)));

TEST(Kernel, ScaleOfOneIsExactAndAScaleIsAppliedBeforeEverything) {
  const KernelVariant variant = {ElementType::f32, ElementType::none, false, AdamMode::adam, true};
  for (const Isa isa : supported_isas()) {
    TestState scaled = random_state(1037, variant.grad, 31, false);
    TestState divided = scaled;
    for (float& g : divided.g32) g *= 0.37F;
    adam_kernel(isa, variant)(test_scalars(variant, 1, 0.37F), scaled.arrays(variant, 0, scaled.p.size()));
    adam_kernel(isa, variant)(test_scalars(variant, 1, 1.0F), divided.arrays(variant, 0, divided.p.size()));
    EXPECT_TRUE(scaled == divided);
  }
}

TEST(Kernel, HalfGradientsAreTheirFloatValues) {
  for (const ElementType grad : {ElementType::bf16, ElementType::f16}) {
    const KernelVariant half = {grad, ElementType::none, false, AdamMode::adamw, true};
    const KernelVariant full = {ElementType::f32, ElementType::none, false, AdamMode::adamw, true};
    TestState a = random_state(65536, grad, 37, false);
    for (std::size_t i = 0; i < a.g16.size(); ++i) {  // every 16-bit pattern, NaNs and denormals among them
      a.g16[i] = static_cast<std::uint16_t>(i);
      a.g32[i] = grad == ElementType::bf16 ? f32_of_bf16(a.g16[i]) : f32_of_f16(a.g16[i]);
    }
    for (const Isa isa : supported_isas()) {
      TestState one = a;
      TestState other = a;
      adam_kernel(isa, half)(test_scalars(half, 1), one.arrays(half, 0, one.p.size()));
      adam_kernel(isa, full)(test_scalars(full, 1), other.arrays(full, 0, other.p.size()));
      EXPECT_TRUE(one == other) << name_of(isa);
    }
  }
}

TEST(Kernel, EveryKindOfParameterIsNarrowedAsInSoftware) {
  // lr = 0 leaves p as it is, so that the copy shows the conversion of any bit pattern. NaN payloads are an
  // exception: the addition quiets them before.
  for (const ElementType copy : {ElementType::bf16, ElementType::f16}) {
    const KernelVariant variant = {ElementType::f32, copy, false, AdamMode::adamw, false};
    TestState state = random_state((1 << 20) / ZF_FEWER, variant.grad, 41, false);
    std::mt19937 random(43);
    for (float& p : state.p) p = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    AdamSettings settings;
    settings.lr = 0;
    const AdamScalars scalars = adam_scalars(settings, 1);
    for (const Isa isa : supported_isas()) {
      adam_kernel(isa, variant)(scalars, state.arrays(variant, 0, state.p.size()));
      for (std::size_t i = 0; i < state.p.size(); ++i) {
        ASSERT_EQ(state.copy[i], copy == ElementType::bf16 ? bf16_of_f32(state.p[i]) : f16_of_f32(state.p[i]))
            << name_of(isa) << ' ' << std::bit_cast<std::uint32_t>(state.p[i]);
      }
    }
  }
}

}  // namespace
}  // namespace zf
