// What zf-tune fit says, as values, as text and as JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fit/forecast.hpp"
#include "fit/verdict.hpp"
#include "text/table.hpp"

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

struct FitReport {
  FitJob job;
  MemoryForecast forecast;
  NodeLimits limits;
  FitVerdict verdict;
  std::vector<Change> changes;
  std::uint64_t largest = 0;              ///< parameters of the largest model that fits; 0: none does
  std::vector<std::string> assumed = {};  ///< what was chosen for the user, one sentence each
};

/// Returns the report of a job on a node. Precondition: there is such a job (why_no_such_job()). Pure.
FitReport fit_report(const FitJob& job, const NodeLimits& limits);

/// Returns text for a person, ended by a newline.
std::string fit_text(const FitReport& report, std::size_t width = kUnlimitedWidth);

/// Returns the keys that fit_json.cpp lists.
std::string fit_json(const FitReport& report);

}  // namespace zf
