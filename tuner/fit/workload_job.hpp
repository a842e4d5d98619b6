// The least that the job of a plan needs.
#pragma once

#include <optional>
#include <string>

#include "fit/fit_job.hpp"
#include "fit/verdict.hpp"
#include "plan/workload.hpp"

namespace zf {

/// Returns the job of a workload, as far as a plan knows it, so that its forecast is a lower bound:
/// parameters in bf16, nothing pinned, no reserve, the model only on GPUs and made in parts if it can be. A
/// framework that is not known is taken for ours with a process, which keeps the least. Pure.
FitJob least_job_of(const Workload& workload, StateFormat state);

/// Returns why not even that fits, in all phases, by forecast_of() and verdict_of(): a sentence without its
/// full stop. Nothing if it does fit. No plan says how a job loads its model, and a job with GPUs may make it
/// there: the start, which needs less than resume, never decides. Pure.
std::optional<std::string> memory_shortage(const Workload& workload, StateFormat state,
                                           const NodeLimits& limits);

}  // namespace zf
