// The interface between the search and the machine that it measures, real or simulated.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/state_format.hpp"
#include "homes/split.hpp"
#include "plan/evidence.hpp"
#include "plan/period.hpp"

namespace zf {

/// How long a visit may take.
struct VisitLimits {
  int samples = 8;
  /// Once Meter::now() has passed this, the visit ends, but not before Meter::kMinSamples periods.
  Nanoseconds deadline_ns = std::numeric_limits<Nanoseconds>::max();
  /// If the shortest times of both sides in the first Meter::kHopelessSamples periods make a period longer
  /// than this, the visit ends after them.
  Nanoseconds hopeless_ns = std::numeric_limits<Nanoseconds>::max();
  /// Once this returns true, the visit gets Meter::kStopGraceNs to end by itself. Then it ends with the
  /// periods that are done, which may be none. Empty: never.
  std::function<bool()> stop = {};
};

/// Returns whether a visit that begins with these periods should end. Compares the shortest time of each
/// side: where outliers are frequent, each of three periods may have one.
inline bool is_hopeless(std::span<const SplitSample> first, const Schedule& schedule,
                        Nanoseconds hopeless_ns) {
  SplitSample shortest = first.front();
  for (const SplitSample& sample : first) {
    shortest.step_ns = std::min(shortest.step_ns, sample.step_ns);
    shortest.training_ns = std::min(shortest.training_ns, sample.training_ns);
  }
  return period_ns(shortest, schedule) > static_cast<double>(hopeless_ns);
}

/// Measures splits. One sample is one period (SplitSample), with all ranks at the same time.
/// Not thread-safe.
class Meter {
 public:
  /// The smallest number of samples of a visit, unless fewer are asked for or the split is hopeless: the
  /// median of fewer is not safe from an outlier.
  static constexpr int kMinSamples = 4;
  static constexpr int kHopelessSamples = 3;
  static constexpr Nanoseconds kStopGraceNs = 3 * kSecondNs;
  /// The roofline loop runs this often in a visit, and the shortest time counts.
  static constexpr int kRooflineLoops = 2;

  virtual ~Meter() = default;

  /// Begins a round: visits of these splits will follow, by label, and their times are compared with each
  /// other. Only a meter that answers from a file needs to know.
  virtual void begin_round(const std::vector<std::string>& /*labels*/) {}

  /// Visits a split: sets it up, warms up (discarded), and measures periods within the limits. Throws
  /// Error(runtime_error) if the split cannot be set up.
  virtual std::vector<SplitSample> measure(const Split& split, const VisitLimits& limits) = 0;

  /// Returns the number of parameters that every rank steps over.
  virtual std::uint64_t elements_per_rank() const = 0;
  /// Returns the state format of the step.
  virtual StateFormat state_format() const { return StateFormat::fp32; }
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
