// The kinds of job whose host memory was measured: what a forecast may be called "measured" for.
#pragma once

#include <span>

#include "fit/fit_job.hpp"

namespace zf {

/// Jobs that differ in their size alone.
struct MeasuredKind {
  StepMethod stepper;
  int stage;
  Mode mode;
  ParameterType type;
  StateFormat state;
  bool has_several_ranks = false;  ///< on one node
  bool has_frozen = false;         ///< parameters
  bool adds_in_fp32 = false;       ///< fp32-accumulation

  bool operator==(const MeasuredKind&) const = default;
};

/// Returns the kinds that tests/frameworks/memory_peaks.py ran: on CPUs, of one node, with pageable memory,
/// and models that were made whole. A test compares the list with the runs. Pure.
std::span<const MeasuredKind> measured_kinds();

/// Returns the kind of a job. Pure.
MeasuredKind kind_of(const FitJob& job);

}  // namespace zf
