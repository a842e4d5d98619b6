// Computes with the demand of a training step: scales it, paces copies, and models a GPU. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.hpp"
#include "plan/workload.hpp"

namespace zf {

/// Returns the demand of the same step over `scale` (above 0, at most 1) of the model: fewer launches, fewer
/// bytes, less GPU time. Launches and copies stay as long and as fast as before. A single launch without a
/// kernel gets shorter: it is the serial part of a step without a GPU. A value above 0 stays at least 1.
TrainingDemand scaled(const TrainingDemand& demand, double scale);

/// How a training step without a GPU divides its CPU time: into parallel regions with serial work between
/// them.
struct Regions {
  std::int64_t count = 0;        ///< 0: nothing is computed in parallel
  Nanoseconds each_ns = 0;       ///< CPU time of every thread in a region
  Nanoseconds serial_ns = 0;     ///< CPU time of one thread before each region
  bool with_the_launch = false;  ///< the demand's launch is this serial work, and not a launch
};

/// Returns the regions of a step on this many threads (above 0), of half a millisecond each or as short as
/// the step. A single launch without a kernel is the step's serial part (docs/workload.md), and is
/// spread over them.
Regions regions_of(const TrainingDemand& demand, int threads);

/// Returns the demand of the `small` workload for this many parameters per rank, in the proportions of
/// configs/workloads.
TrainingDemand small_training_demand(std::uint64_t params_per_rank);

/// Returns how many times as long as ours the framework's optimizer step takes, counted in bytes: 1, except
/// for ZenFlow in mode overlap. That reads each new parameter once more and writes it to a second place: 36
/// bytes per parameter, where a step moves 28 (DeepSpeed 0.19.8, cpu_adam_impl.cpp).
double estimated_step_factor(Framework framework, Mode mode);

/// Models a GPU that runs kernels of equal length in the order of their launches. A kernel that is launched
/// late leaves the GPU idle: that is how a busy host slows training down.
class GpuClock {
 public:
  GpuClock(Nanoseconds start_ns, Nanoseconds kernel_ns) : free_ns_(start_ns), kernel_ns_(kernel_ns) {}
  void launch(Nanoseconds now_ns) { free_ns_ = std::max(free_ns_, now_ns) + kernel_ns_; }
  /// Returns when all launched kernels will be done.
  Nanoseconds free_ns() const { return free_ns_; }

 private:
  Nanoseconds free_ns_;
  Nanoseconds kernel_ns_;
};

/// Returns when byte number `bytes` is due, for copies that began at `start_ns`. Precondition: bytes_per_s >
/// 0.
Nanoseconds due_ns(Nanoseconds start_ns, std::uint64_t bytes, std::uint64_t bytes_per_s);

/// Returns the same training on another number of ranks. The bytes moved on the host are divided by more or
/// fewer ranks; the work of each GPU stays.
Workload on_ranks(Workload workload, int ranks);

}  // namespace zf
