// What would let a job need less memory, and how large a model may be.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fit/forecast.hpp"
#include "fit/verdict.hpp"

namespace zf {

/// A change of a job.
struct Change {
  std::string what;         ///< "--state bf16: moments in bf16"
  std::uint64_t saves = 0;  ///< of the peak, on this node
  FitJob job = {};          ///< with the change
  bool is_enough = false;   ///< the job fits with it, or fitted before
};

/// Returns the changes of a job that save at least a hundredth of its peak, the largest saving first. Pure.
std::vector<Change> changes_that_help(const FitJob& job, const NodeLimits& limits);

/// Returns the number of parameters of the largest model that fits as this job; 0 if none does. The share of
/// trainable parameters stays, and the largest parameter and layer are those of usual models. Pure.
std::uint64_t largest_model(const FitJob& job, const NodeLimits& limits);

}  // namespace zf
