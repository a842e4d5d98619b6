// The least that the job of a plan needs.
#pragma once

#include <optional>
#include <string>

#include "fit/fit_job.hpp"
#include "fit/verdict.hpp"
#include "plan/workload.hpp"

namespace zf {

/// Returns the job of a workload, as far as a plan knows it, so that its forecast is a lower bound:
/// parameters in bf16, nothing pinned, no reserve, the model only on GPUs. A framework that is not known is
/// taken for ours with a process, which keeps the least. Pure.
FitJob least_job_of(const Workload& workload, StateFormat state);

/// Returns a sentence if even that does not fit: what it needs, when, and what limits it. Otherwise nothing.
/// Pure.
std::optional<std::string> memory_shortage(const Workload& workload, StateFormat state,
                                           const NodeLimits& limits);

}  // namespace zf
