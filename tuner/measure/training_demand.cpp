#include "measure/training_demand.hpp"

#include <cmath>

namespace zf {
namespace {

template <class Count>
Count cut(Count value, double scale) {
  if (value == 0) return 0;
  return std::max<Count>(1, static_cast<Count>(std::llround(static_cast<double>(value) * scale)));
}

/// Returns whether the demand's launch is the serial part of a step without a GPU.
bool is_serial_part(const TrainingDemand& demand) { return demand.launches == 1 && demand.gpu_ns == 0; }

}  // namespace

TrainingDemand scaled(const TrainingDemand& demand, double scale) {
  TrainingDemand part = demand;
  part.launches = cut(demand.launches, scale);
  part.host_bytes = cut(demand.host_bytes, scale);
  part.gradient_bytes = cut(demand.gradient_bytes, scale);
  part.parameter_bytes = cut(demand.parameter_bytes, scale);
  part.gpu_ns = cut(demand.gpu_ns, scale);
  part.parallel_ns = cut(demand.parallel_ns, scale);
  if (is_serial_part(demand)) part.launch_ns = cut(demand.launch_ns, scale);
  return part;
}

Regions regions_of(const TrainingDemand& demand, int threads) {
  // About as long as an operator of PyTorch over some million elements, and shorter than a time slice of the
  // kernel.
  constexpr Nanoseconds kRegionNs = 500'000;
  if (demand.parallel_ns == 0) return {};
  const Nanoseconds share_ns = demand.parallel_ns / threads;
  Regions regions;
  regions.count = std::max<std::int64_t>(1, (share_ns + kRegionNs / 2) / kRegionNs);
  regions.each_ns = share_ns / regions.count;
  regions.with_the_launch = is_serial_part(demand);
  if (regions.with_the_launch) regions.serial_ns = demand.launch_ns / regions.count;
  return regions;
}

TrainingDemand small_training_demand(std::uint64_t params_per_rank) {
  // docs/workload.md has these figures with their sources.
  constexpr double kLaunchesPerParam = 2520 / 0.247e9;
  constexpr double kGpuNsPerParam = 0.8 * 1116e6 / 1.543e9;
  constexpr std::uint64_t kHostBytesPerParam = 14;
  constexpr std::uint64_t kCopyBytesPerParam = 2;
  const auto params = static_cast<double>(params_per_rank);
  TrainingDemand demand;
  demand.launches = static_cast<std::uint64_t>(std::max(1.0, params * kLaunchesPerParam));
  demand.launch_ns = 6000;
  demand.host_bytes = kHostBytesPerParam * params_per_rank;
  demand.gradient_bytes = demand.parameter_bytes = kCopyBytesPerParam * params_per_rank;
  demand.copy_bytes_per_s = 12'000'000'000;
  demand.gpu_ns = static_cast<Nanoseconds>(params * kGpuNsPerParam);
  return demand;
}

double estimated_step_factor(Framework framework, Mode mode) {
  constexpr double kStepBytes = 28;  // reads p, m, v and g, writes p, m and v
  constexpr double kStaleCopyBytes = 8;
  const bool copies = framework == Framework::deepspeed_zenflow && mode == Mode::overlap;
  return copies ? (kStepBytes + kStaleCopyBytes) / kStepBytes : 1;
}

Nanoseconds due_ns(Nanoseconds start_ns, std::uint64_t bytes, std::uint64_t bytes_per_s) {
  const double seconds = static_cast<double>(bytes) / static_cast<double>(bytes_per_s);
  return start_ns + std::llround(seconds * static_cast<double>(kSecondNs));
}

Workload on_ranks(Workload workload, int ranks) {
  if (workload.training) {
    const auto spread = [&](std::uint64_t bytes) {
      return bytes * static_cast<std::uint64_t>(workload.ranks) / static_cast<std::uint64_t>(ranks);
    };
    workload.training->host_bytes = spread(workload.training->host_bytes);
    workload.training->gradient_bytes = spread(workload.training->gradient_bytes);
    workload.training->parameter_bytes = spread(workload.training->parameter_bytes);
  }
  workload.ranks = ranks;
  return workload;
}

}  // namespace zf
