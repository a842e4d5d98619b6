// What `zf-tune trial` does: from a measured plan, by runs of the job itself, to the plan that won.
#pragma once

#include <functional>
#include <string>

#include "machine/machine.hpp"
#include "plan/plan.hpp"
#include "trial/trial_runs.hpp"

namespace zf {

/// Tries the `best` splits of the plan `from` and the controls on this machine, and returns the plan that
/// won. `name` is that plan's, for messages. `interrupt` is asked often for the signal that shall end the
/// trial, 0 for none. Throws Error(stale_plan) if `machine` is of another class than the plan's, and as
/// run_trial() does.
Plan try_job(const Plan& from, const std::string& name, const Machine& machine, int best,
             const Metric& metric, TrialRequest request, const std::function<int()>& interrupt,
             const std::function<void(const TrialProgress&)>& progress);

}  // namespace zf
