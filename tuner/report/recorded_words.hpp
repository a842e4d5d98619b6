// A recorded workload in words, and the forecast for it beside what was recorded.
#pragma once

#include <string>

#include "compare/difference.hpp"
#include "measure/workload_file.hpp"
#include "plan/plan.hpp"

namespace zf {

/// Returns some lines that say what the job is, and which fields stay estimates.
std::string recorded_in_words(const WorkloadFile& file);

/// Returns one line: which fields of a workload file were not measured. Empty if there are none.
std::string estimates_in_words(const WorkloadFile& file);

/// In 95 of 100 cases, the ratio of two periods of a job differs by less than this from the same ratio of the
/// synthetic job, as a logarithm. Measured: docs/workload.md.
inline constexpr double kForecastError = 0.05;

/// Returns a measured difference of the synthetic job as a forecast for the job itself. Both errors are taken
/// to be independent, so the half-widths add as squares, in logarithms. Precondition: it is known.
Difference with_forecast_error(const Difference& measured);

/// Returns one line: the period that was recorded, the forecasts for the job as it was recorded (unbound) and
/// under the plan, both by the same visits, and how they compare. Empty if the file was not recorded, or the
/// plan has not measured them.
std::string forecast_in_words(const WorkloadFile& file, const Plan& plan);

}  // namespace zf
