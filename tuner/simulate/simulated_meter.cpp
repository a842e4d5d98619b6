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
}

/// Scales a time down to the part that is measured, and adds noise.
Nanoseconds SimulatedMeter::with_noise(Nanoseconds ns) {
  const SimulatedNoise& noise = model_.machine().noise;
  const double turns = static_cast<double>(clock_ns_) / static_cast<double>(noise.drift_period_ns);
  double factor = 1 + noise.drift * std::sin(2 * std::numbers::pi * turns);
  factor *= std::max(0.1, 1 + noise.relative * std::normal_distribution<double>()(random_));
  if (std::bernoulli_distribution(noise.outlier_rate)(random_)) factor *= noise.outlier_factor;
  return std::llround(static_cast<double>(ns) * scale_ * factor);
}

std::vector<SplitSample> SimulatedMeter::measure(const Split& split, int samples, Nanoseconds deadline_ns) {
  const SplitSample ideal = model_.times_of(split);
  std::vector<SplitSample> result;
  clock_ns_ += kSetUpNs;
  for (int i = -1; i < samples; ++i) {  // -1: the warm-up
    SplitSample sample = ideal;
    sample.step_ns = with_noise(ideal.step_ns);
    sample.roofline_ns = with_noise(ideal.roofline_ns);
    sample.training_ns = with_noise(ideal.training_ns);
    sample.launch_delay_p50_ns =
        std::llround(static_cast<double>(with_noise(ideal.launch_delay_p50_ns)) / scale_);
    sample.launch_delay_p99_ns =
        std::llround(static_cast<double>(with_noise(ideal.launch_delay_p99_ns)) / scale_);
    sample.training_bytes = static_cast<std::uint64_t>(static_cast<double>(ideal.training_bytes) * scale_);
    clock_ns_ += period_ns(sample, model_.workload().update_interval) + sample.roofline_ns;
    if (i >= 0) result.push_back(sample);
    if (result.size() >= kMinSamples && clock_ns_ > deadline_ns) break;
  }
  return result;
}

}  // namespace zf
