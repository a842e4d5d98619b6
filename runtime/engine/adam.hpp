// Computes the scalars of one step of Adam or AdamW.
#pragma once

#include <cstdint>

#include "base/step_types.hpp"

namespace zf {

/// The settings of Adam, in double as torch has them.
struct AdamSettings {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.0;
  AdamMode mode = AdamMode::adamw;
  bool bias_correction = true;
};

/// Returns the scalars of a step, with grad_scale 1: computed in double, each rounded once. Pure.
/// Precondition: step >= 1.
AdamScalars adam_scalars(const AdamSettings& settings, std::uint64_t step);

}  // namespace zf
