// Tells whether the job of a plan cannot fit into memory, by the least that it needs.
#pragma once

#include <optional>
#include <string>

#include "fit/fit_job.hpp"
#include "fit/verdict.hpp"
#include "plan/workload.hpp"

namespace zf {

/// Returns the job of a workload. What a plan does not know is set to what needs the least memory, so that
/// the forecast is a lower bound: parameters in bf16, nothing pinned, no reserve, the model only on GPUs and
/// made in parts if it can be. An unknown framework counts as ours with a process, which keeps the least.
/// Pure.
FitJob least_job_of(const Workload& workload, StateFormat state);

/// Returns why not even least_job_of() the workload fits: a sentence without its full stop, by forecast_of()
/// and verdict_of(). Returns nothing if it fits in all phases. The start never decides, because it needs less
/// than resume: no plan says how a job loads its model, and a job with GPUs may make the model there. Pure.
std::optional<std::string> memory_shortage(const Workload& workload, StateFormat state,
                                           const NodeLimits& limits);

}  // namespace zf
