// Measures splits on a simulated machine: returns the times of the model, with noise, on a clock of its own.
#pragma once

#include <cstdint>
#include <random>

#include "measure/meter.hpp"
#include "plan/period.hpp"
#include "simulate/simulated_model.hpp"

namespace zf {

class SimulatedMeter : public Meter {
 public:
  /// Makes a simulated machine. The same arguments and the same calls give the same samples.
  /// `elements_per_rank` is as for a real machine.
  SimulatedMeter(const SimulatedModel& model, std::uint64_t elements_per_rank, std::uint64_t seed);

  std::vector<SplitSample> measure(const Split& split, const VisitLimits& limits) override;
  std::uint64_t elements_per_rank() const override { return elements_; }
  double scale() const override { return scale_; }
  std::string isa() const override { return kSimulated; }
  Nanoseconds now() const override { return clock_ns_; }

 private:
  double sample_factor();
  Nanoseconds with_noise(Nanoseconds ns, double visit_factor, double sample_factor);
  double visit_factor();

  const SimulatedModel& model_;
  Schedule schedule_;
  std::uint64_t elements_;
  double scale_;
  std::mt19937_64 random_;
  Nanoseconds clock_ns_ = 0;
};

}  // namespace zf
