// The kinds of job with a measured host memory: what a forecast may be called "measured" for.
#pragma once

#include <string>
#include <vector>

#include "fit/fit_job.hpp"

namespace zf {

/// Returns what jobs have in common that differ in their size alone: "native 2 wait bf16:fp32", with ":ranks"
/// if there are several on one node, ":frozen" if some parameters are, and ":sums" for fp32-accumulation.
/// Pure.
std::string kind_of(const FitJob& job);

/// Returns the kinds that tests/frameworks/memory_peaks.py ran: on CPUs, of one node, with pageable memory,
/// and models that were made whole. A test compares the list with the runs. Pure.
std::vector<std::string> measured_kinds();

}  // namespace zf
