// Computes the bias correction and the scalars of one step of Adam or AdamW.
#pragma once

#include <cstdint>

#include "base/step_types.hpp"

namespace zf {

/// Returns the progress after `step`. On the next step with unchanged betas the powers are multiplied; on a
/// jump they are float(pow(β, step)). Pure. Precondition: step >= 1.
AdamProgress advanced(const AdamProgress& progress, const AdamSettings& settings, std::uint64_t step);

/// Returns the scalars of the step that `progress` has just been advanced to. Pure.
AdamScalars scalars_of(const AdamSettings& settings, const AdamProgress& progress);

}  // namespace zf
