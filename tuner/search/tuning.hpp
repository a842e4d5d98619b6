// Does the work of `zf-tune tune`: sweeps the splits of a job on a machine and makes a plan.
#pragma once

#include <functional>

#include "plan/plan.hpp"
#include "search/tuning_job.hpp"

namespace zf {

/// Sweeps and returns the plan. `recorder` may be null. `swept` is called when the sweep for the plan has
/// ended. `interrupt` is called often and returns the signal that ends the sweep, or 0. With for_deepspeed,
/// two fifths of the budget go to the plan, two fifths to the free choice, and the rest to comparing the two.
/// Throws Error(exit_after_signal()) if it is interrupted before anything was measured, and what the meter
/// throws.
Plan tune(TuningJob& job, const TuningRequest& request, RecordingMeter* recorder,
          const std::function<int()>& interrupt, const std::function<void(const SweepProgress&)>& progress,
          const std::function<void()>& swept);

}  // namespace zf
