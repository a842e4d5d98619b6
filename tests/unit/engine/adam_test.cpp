#include "engine/adam.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace zf {
namespace {

TEST(Adam, EachScalarIsComputedInDoubleAndRoundedOnce) {
  const AdamSettings settings;
  for (const std::uint64_t step : {1U, 2U, 3U, 100U, 1000000U}) {
    const double number = static_cast<double>(step);
    const AdamScalars scalars = adam_scalars(settings, step);
    EXPECT_EQ(scalars.one_minus_beta1, static_cast<float>(1.0 - 0.9));
    EXPECT_EQ(scalars.one_minus_beta2, static_cast<float>(1.0 - 0.999));
    EXPECT_EQ(scalars.step_size, static_cast<float>(-1e-3 / (1.0 - std::pow(0.9, number))));
    EXPECT_EQ(scalars.inv_sqrt_bias2, static_cast<float>(std::pow(1.0 - std::pow(0.999, number), -0.5)));
    EXPECT_EQ(scalars.grad_scale, 1.0F);
  }
}

TEST(Adam, DecayIsOfTheGradientOrOfTheParameter) {
  AdamSettings settings;
  settings.weight_decay = 0.1;
  EXPECT_EQ(adam_scalars(settings, 7).decay, static_cast<float>(-1e-3 * 0.1));
  settings.mode = AdamMode::adam;
  EXPECT_EQ(adam_scalars(settings, 7).decay, 0.1F);
}

TEST(Adam, WithoutBiasCorrectionTheStepIsTheRate) {
  AdamSettings settings;
  settings.bias_correction = false;
  EXPECT_EQ(adam_scalars(settings, 1).step_size, -1e-3F);
  EXPECT_EQ(adam_scalars(settings, 1).inv_sqrt_bias2, 1.0F);
}

}  // namespace
}  // namespace zf
