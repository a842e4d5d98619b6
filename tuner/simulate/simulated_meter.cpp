#include "simulate/simulated_meter.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace zf {
namespace {

/// The time to start the ranks and to touch the working set before the first period of a visit.
constexpr Nanoseconds kSetUpNs = kSecondNs / 4;

}  // namespace

SimulatedMeter::SimulatedMeter(const SimulatedModel& model, std::uint64_t elements_per_rank,
                               std::uint64_t seed)
    : model_(model), elements_(elements_per_rank), random_(seed) {
  const Workload& workload = model.workload();
  const double whole = static_cast<double>(workload.params) / workload.ranks;
  scale_ = std::min(1.0, static_cast<double>(elements_per_rank) / whole);
  schedule_ = schedule_of(workload, scale_);
}

/// Returns how much slower one side is in this visit: a new process has other pages and other neighbours.
double SimulatedMeter::visit_factor() {
  return std::exp(model_.machine().noise.visit * std::normal_distribution<double>()(random_));
}

/// Scales a time down to the part that is measured, and adds noise.
Nanoseconds SimulatedMeter::with_noise(Nanoseconds ns, double visit_factor) {
  const SimulatedNoise& noise = model_.machine().noise;
  const double turns = static_cast<double>(clock_ns_) / static_cast<double>(noise.drift_period_ns);
  double factor = 1 + noise.drift * std::sin(2 * std::numbers::pi * turns);
  factor *= visit_factor;
  factor *= std::max(0.1, 1 + noise.relative * std::normal_distribution<double>()(random_));
  if (std::bernoulli_distribution(noise.outlier_rate)(random_)) factor *= noise.outlier_factor;
  return std::llround(static_cast<double>(ns) * scale_ * factor);
}

std::vector<SplitSample> SimulatedMeter::measure(const Split& split, const VisitLimits& limits) {
  const SplitSample ideal = model_.times_of(split);
  const double optimizer = visit_factor();
  const double training = visit_factor();
  std::vector<SplitSample> result;
  clock_ns_ += kSetUpNs;
  Nanoseconds roofline_ns = 0;
  std::size_t hopeless = 0;
  for (int i = -1; i < limits.samples; ++i) {  // -1: the warm-up
    SplitSample sample = ideal;
    sample.step_ns = with_noise(ideal.step_ns, optimizer);
    sample.training_ns = with_noise(ideal.training_ns, training);
    sample.launch_delay_p50_ns =
        std::llround(static_cast<double>(with_noise(ideal.launch_delay_p50_ns, training)) / scale_);
    sample.launch_delay_p99_ns =
        std::llround(static_cast<double>(with_noise(ideal.launch_delay_p99_ns, training)) / scale_);
    sample.training_bytes = static_cast<std::uint64_t>(static_cast<double>(ideal.training_bytes) * scale_);
    const double period = period_ns(sample, schedule_);
    clock_ns_ += std::llround(period);
    if (i < 0) {
      for (int loop = 0; loop < kRooflineLoops; ++loop) {
        const Nanoseconds took = with_noise(ideal.roofline_ns, optimizer);
        clock_ns_ += took;
        roofline_ns = loop == 0 ? took : std::min(roofline_ns, took);
      }
      continue;
    }
    sample.roofline_ns = roofline_ns;
    result.push_back(sample);
    if (period > static_cast<double>(limits.hopeless_ns)) ++hopeless;
    if (hopeless == kHopelessSamples && result.size() == kHopelessSamples) break;
    if (result.size() >= kMinSamples && clock_ns_ > limits.deadline_ns) break;
  }
  return result;
}

}  // namespace zf
