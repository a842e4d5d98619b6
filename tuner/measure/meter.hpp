// The interface between the search and the machine that it measures, real or simulated.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "homes/split.hpp"
#include "plan/evidence.hpp"

namespace zf {

/// Measures splits. One sample is one period (SplitSample), with all ranks and both sides at the same time.
/// Not thread-safe.
class Meter {
 public:
  /// The smallest number of samples of a visit, unless fewer are asked for. Fewer say nothing about a
  /// difference, see compare().
  static constexpr int kMinSamples = 4;

  virtual ~Meter() = default;

  /// Visits a split: sets it up, warms up (discarded), and measures `samples` periods. Stops earlier, but
  /// with at least kMinSamples periods, once now() has passed `deadline_ns`. Throws Error(runtime_error) if
  /// the split cannot be set up.
  virtual std::vector<SplitSample> measure(const Split& split, int samples, Nanoseconds deadline_ns) = 0;

  /// Returns the number of fp32 parameters that every rank steps over.
  virtual std::uint64_t elements_per_rank() const = 0;
  /// Returns the part of the model that is measured, above 0 and at most 1. Both sides are cut down equally,
  /// so that the shorter period keeps its proportions. Samples are not scaled back.
  virtual double scale() const = 0;
  /// Returns the instruction set of the kernels ("avx512").
  virtual std::string isa() const = 0;
  /// Returns the time by which deadlines and budgets are kept. A simulated machine has its own clock, which
  /// only measuring advances.
  virtual Nanoseconds now() const { return now_ns(); }
};

}  // namespace zf
