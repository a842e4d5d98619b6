// A recorded workload in words, and the forecast for it beside what was recorded.
#pragma once

#include <string>

#include "measure/workload_file.hpp"
#include "plan/plan.hpp"

namespace zf {

/// Returns some lines that say what the job is, and which fields stay estimates.
std::string recorded_in_words(const WorkloadFile& file);

/// Returns one line: which fields of a workload file nobody measured. Empty if there are none.
std::string estimates_in_words(const WorkloadFile& file);

/// Returns one line: the period that was recorded, the forecasts for the job as it was recorded (unbound) and
/// under the plan, both by the same visits, and how they compare. Empty if the file was not recorded, or the
/// plan has not measured them.
std::string forecast_in_words(const WorkloadFile& file, const Plan& plan);

}  // namespace zf
