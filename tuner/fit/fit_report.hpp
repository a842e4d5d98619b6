// What zf-tune fit says, as values, as text and as JSON.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "fit/advice.hpp"
#include "fit/forecast.hpp"
#include "fit/verdict.hpp"
#include "text/table.hpp"

namespace zf {

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
