// Measures a split on this machine: the production pool and kernel beside synthetic training. All ranks run
// at the same time, each in a process of its own.
#pragma once

#include "measure/meter.hpp"
#include "measure/rank_process.hpp"

namespace zf {

class MachineMeter : public Meter {
 public:
  /// Makes a meter for this work. `scale` is what scale() returns.
  MachineMeter(const RankWork& work, double scale) : work_(work), scale_(scale) {}

  /// Forks a process per rank, so call it while this process has one thread. The children die with this
  /// process, and are gone when the call returns or throws. Error(runtime_error) names the rank that failed
  /// and the cause.
  std::vector<SplitSample> measure(const Split& split, const VisitLimits& limits) override;
  std::uint64_t elements_per_rank() const override { return work_.elements; }
  StateFormat state_format() const override { return work_.format; }
  double scale() const override { return scale_; }
  std::string isa() const override { return std::string(name_of(work_.isa)); }

 private:
  RankWork work_;
  double scale_;
};

}  // namespace zf
