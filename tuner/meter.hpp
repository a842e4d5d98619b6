// The seam between the search and what it measures: a real machine today, a simulated one tomorrow.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "tuner/split.hpp"

namespace zf {

/// One optimizer step of all ranks at once, and the roofline loop over the same memory right beside it.
/// Both times are the slowest rank's.
struct SplitSample {
  Nanoseconds step_ns = 0;
  Nanoseconds roofline_ns = 0;
};

class Meter {
 public:
  virtual ~Meter() = default;

  /// One visit to a split: set up, warm up (discarded), `samples` pairs. Stops early, with at least one pair,
  /// once now_ns() has passed `deadline_ns`. Throws Error(runtime_error) when the split cannot be set up.
  virtual std::vector<SplitSample> measure(const Split& split, int samples, Nanoseconds deadline_ns) = 0;

  /// fp32 parameters that every rank steps over.
  virtual std::uint64_t elements_per_rank() const = 0;
  /// What the kernels run on ("avx512").
  virtual std::string isa() const = 0;
};

}  // namespace zf
