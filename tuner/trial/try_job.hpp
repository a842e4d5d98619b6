// Does the work of `zf-tune trial`: runs the job under splits of a measured plan, and makes the plan that
// won.
#pragma once

#include <functional>
#include <string>

#include "machine/machine.hpp"
#include "plan/plan.hpp"
#include "trial/trial_runs.hpp"

namespace zf {

/// Tries splits of the plan `from`, `sizes` pools and the controls (trial_splits()), on this machine, and
/// returns the plan that won. Messages call that plan `name`. `interrupt` is called often and returns the
/// signal that ends the trial, or 0. Throws Error(stale_plan) if `machine` is of another class than the
/// plan's, and as run_trial() does.
Plan try_job(const Plan& from, const std::string& name, const Machine& machine, int sizes,
             const Metric& metric, TrialRequest request, const std::function<int()>& interrupt,
             const std::function<void(const TrialProgress&)>& progress);

}  // namespace zf
