// The seam between the search and what it measures: this machine, or a simulated one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "homes/split.hpp"
#include "plan/evidence.hpp"

namespace zf {

/// One sample is one period (SplitSample): all ranks at once, both sides at once. One at a time: not
/// thread-safe.
class Meter {
 public:
  /// Of one visit, where as many are asked for: fewer say nothing about a difference, see compare().
  static constexpr int kMinSamples = 4;

  virtual ~Meter() = default;

  /// One visit to a split: set up, warm up (discarded), `samples` periods. Stops early, with at least
  /// kMinSamples periods, once now() has passed `deadline_ns`. Throws Error(runtime_error) when the split
  /// cannot be set up.
  virtual std::vector<SplitSample> measure(const Split& split, int samples, Nanoseconds deadline_ns) = 0;

  /// fp32 parameters that every rank steps over.
  virtual std::uint64_t elements_per_rank() const = 0;
  /// Part of the model that is measured, above 0 and at most 1: both sides are cut down alike, so that the
  /// shorter period is in the same proportions. Samples are not scaled back.
  virtual double scale() const = 0;
  /// What the kernels run on ("avx512").
  virtual std::string isa() const = 0;
  /// The clock that deadlines and budgets are read from. A simulated machine has its own, which only
  /// measuring moves on.
  virtual Nanoseconds now() const { return now_ns(); }
};

}  // namespace zf
