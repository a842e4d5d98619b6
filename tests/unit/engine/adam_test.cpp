#include "engine/adam.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace zf {
namespace {

TEST(Adam, ConsecutiveStepsMultiplyThePowers) {
  const AdamSettings settings;
  AdamProgress progress;
  float beta1_power = 1.0F;
  float beta2_power = 1.0F;
  for (std::uint64_t step = 1; step <= 1000; ++step) {
    progress = advanced(progress, settings, step);
    beta1_power *= settings.beta1;
    beta2_power *= settings.beta2;
    ASSERT_EQ(progress.step, step);
    ASSERT_EQ(progress.beta1_power, beta1_power) << step;
    ASSERT_EQ(progress.beta2_power, beta2_power) << step;
  }
}

TEST(Adam, AJumpTakesThePowerAtOnce) {
  const AdamSettings settings;
  const AdamProgress progress = advanced({}, settings, 500);
  EXPECT_EQ(progress.beta1_power, static_cast<float>(std::pow(double{settings.beta1}, 500.0)));
  EXPECT_EQ(progress.beta2_power, static_cast<float>(std::pow(double{settings.beta2}, 500.0)));
  EXPECT_EQ(advanced(progress, settings, 400).beta2_power,
            static_cast<float>(std::pow(double{settings.beta2}, 400.0)));
}

TEST(Adam, ChangedBetasAreAJump) {
  AdamSettings settings;
  const AdamProgress progress = advanced({}, settings, 9);
  settings.beta1 = 0.8F;
  const AdamProgress next = advanced(progress, settings, 10);
  EXPECT_EQ(next.beta1_power, static_cast<float>(std::pow(double{0.8F}, 10.0)));
  EXPECT_EQ(next.beta2_power, static_cast<float>(std::pow(double{settings.beta2}, 10.0)));
  EXPECT_EQ(next.beta1, 0.8F);
}

TEST(Adam, ScalarsFollowTheFormulas) {
  AdamSettings settings;
  settings.lr = 3e-4F;
  settings.weight_decay = 0.1F;
  settings.grad_scale = 0.25F;
  const AdamProgress progress = advanced({}, settings, 7);
  const AdamScalars scalars = scalars_of(settings, progress);
  EXPECT_EQ(scalars.one_minus_beta1, 1.0F - 0.9F);
  EXPECT_EQ(scalars.one_minus_beta2, 1.0F - 0.999F);
  EXPECT_EQ(scalars.inv_sqrt_bias2, 1.0F / std::sqrt(1.0F - progress.beta2_power));
  EXPECT_EQ(scalars.step_size, -3e-4F / (1.0F - progress.beta1_power));
  EXPECT_EQ(scalars.decay, -3e-4F * 0.1F);
  EXPECT_EQ(scalars.grad_scale, 0.25F);

  settings.mode = AdamMode::adam;
  EXPECT_EQ(scalars_of(settings, progress).decay, 0.1F);
}

TEST(Adam, WithoutBiasCorrectionTheStepIsPlainLr) {
  AdamSettings settings;
  settings.bias_correction = false;
  const AdamScalars scalars = scalars_of(settings, advanced({}, settings, 1));
  EXPECT_EQ(scalars.inv_sqrt_bias2, 1.0F);
  EXPECT_EQ(scalars.step_size, -settings.lr);
}

}  // namespace
}  // namespace zf
