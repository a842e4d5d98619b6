// Does the work of `zf-tune tune`: sweeps the splits of a job on a machine, and chooses one.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "compare/difference.hpp"
#include "measure/meter.hpp"
#include "plan/choice.hpp"
#include "plan/evidence.hpp"
#include "plan/period.hpp"
#include "search/sweep.hpp"
#include "search/tuning_job.hpp"

namespace zf {

/// Returns what decide() chooses, with the headroom, but without a reason: report puts it in words. Pure.
/// Precondition: that of contest_of().
Choice choose(const Evidence& evidence, const Workload& workload);

/// What it costs to use only splits that a launcher can be told.
struct RestrictionCost {
  bool is_free_choice = false;            ///< nothing: the plan's split is also the free choice
  std::string free_label = {};            ///< of the free choice
  std::optional<Difference> longer = {};  ///< by how much the free choice takes longer; absent: not measured
  std::string failure = {};               ///< why it was not measured, if a measurement failed
};

/// Returns how much longer the period of `free` is than that of `kept`: negative if the restriction costs
/// something. Visits both in turn, four times each. Stops earlier, but after at least one visit each, once
/// the meter's clock has passed `deadline_ns` or `stop` returns true. Returns nothing if a visit then has no
/// sample. Throws what the meter throws.
std::optional<Difference> restriction_cost(const Split& kept, const Split& free, const Schedule& schedule,
                                           Meter& meter, Nanoseconds deadline_ns,
                                           const std::function<bool()>& stop);

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
