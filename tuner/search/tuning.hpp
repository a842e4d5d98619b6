// Does the work of `zf-tune tune`: sweeps the splits of a job on a machine, and chooses one.
#pragma once

#include <functional>
#include <optional>

#include "plan/choice.hpp"
#include "search/restriction_cost.hpp"
#include "search/sweep.hpp"
#include "search/tuning_job.hpp"

namespace zf {

/// What was found. report/tuned_plan.hpp makes a plan of it.
struct Tuned {
  SweepResult sweep = {};
  Choice choice = {};                               ///< without a reason
  Nanoseconds telling_budget_ns = 0;                ///< SweepResult's, of the whole job
  int signal = 0;                                   ///< ended the sweep; 0: none did
  std::optional<RestrictionCost> restriction = {};  ///< with for_deepspeed
};

/// Sweeps and chooses. `recorder` may be null. `swept` is called when the sweep for the plan has ended.
/// `interrupt` is called often and returns the signal that ends the sweep, or 0. With for_deepspeed, two
/// fifths of the budget go to the plan, two fifths to the free choice, and the rest to comparing the two.
/// Throws Error(exit_after_signal()) if it is interrupted before anything was measured, and what the meter
/// throws.
Tuned tune(TuningJob& job, const TuningRequest& request, RecordingMeter* recorder,
           const std::function<int()>& interrupt, const std::function<void(const SweepProgress&)>& progress,
           const std::function<void()>& swept);

}  // namespace zf
