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

/// Returns how much slower one time is than others of its visit.
double SimulatedMeter::sample_factor() {
  const SimulatedNoise& noise = model_.machine().noise;
  const double factor = std::max(0.1, 1 + noise.relative * std::normal_distribution<double>()(random_));
  return std::bernoulli_distribution(noise.outlier_rate)(random_) ? factor * noise.outlier_factor : factor;
}

/// Scales a time down to the part that is measured, and adds drift and noise.
Nanoseconds SimulatedMeter::with_noise(Nanoseconds ns, double visit_factor, double sample_factor) {
  const SimulatedNoise& noise = model_.machine().noise;
  const double turns = static_cast<double>(clock_ns_) / static_cast<double>(noise.drift_period_ns);
  const double drift = 1 + noise.drift * std::sin(2 * std::numbers::pi * turns);
  return std::llround(static_cast<double>(ns) * scale_ * drift * visit_factor * sample_factor);
}

std::vector<SplitSample> SimulatedMeter::measure(const Split& split, const VisitLimits& limits) {
  const SplitSample ideal = model_.times_of(split);
  const double optimizer = visit_factor();
  const double training = visit_factor();
  std::vector<SplitSample> result;
  clock_ns_ += kSetUpNs;
  Nanoseconds roofline_ns = 0;
  for (int i = -1; i < limits.samples; ++i) {  // -1: the warm-up
    SplitSample sample = ideal;
    const double slow = sample_factor();
    sample.step_ns = with_noise(ideal.step_ns, optimizer, slow);
    const bool is_common = model_.machine().noise.is_common;
    sample.training_ns = with_noise(ideal.training_ns, training, is_common ? slow : sample_factor());
    const auto delay = [&](Nanoseconds ns) {
      return std::llround(static_cast<double>(with_noise(ns, training, sample_factor())) / scale_);
    };
    sample.launch_delay_p50_ns = delay(ideal.launch_delay_p50_ns);
    sample.launch_delay_p99_ns = delay(ideal.launch_delay_p99_ns);
    sample.training_bytes = static_cast<std::uint64_t>(static_cast<double>(ideal.training_bytes) * scale_);
    const double period = period_ns(sample, schedule_);
    clock_ns_ += std::llround(period);
    if (i < 0) {
      for (int loop = 0; loop < kRooflineLoops; ++loop) {
        const Nanoseconds took = with_noise(ideal.roofline_ns, optimizer, sample_factor());
        clock_ns_ += took;
        roofline_ns = loop == 0 ? took : std::min(roofline_ns, took);
      }
      continue;
    }
    sample.roofline_ns = roofline_ns;
    result.push_back(sample);
    if (result.size() == kHopelessSamples && is_hopeless(result, schedule_, limits.hopeless_ns)) break;
    if (result.size() >= kMinSamples && clock_ns_ > limits.deadline_ns) break;
  }
  return result;
}

}  // namespace zf
