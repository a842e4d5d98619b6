// The arithmetic of a training step's demand: cut down, paced, and a GPU made of numbers. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>

#include "base/clock.hpp"
#include "plan/plan.hpp"
#include "plan/workload.hpp"

namespace zf {

/// The same step over `scale` (above 0, at most 1) of the model: fewer launches, fewer bytes, less GPU time,
/// each as long and as fast as before. What is there at all keeps at least 1.
TrainingDemand scaled(const TrainingDemand& demand, double scale);

/// Training steps per optimizer step of the `small` workload.
inline constexpr int kSmallUpdateInterval = 4;

/// The demand of the `small` workload for this many parameters per rank: the proportions of
/// configs/workloads.
TrainingDemand small_training_demand(std::uint64_t params_per_rank, int update_interval);

/// A GPU that runs kernels of equal length in the order of their launches: one that is launched late leaves
/// it idle, which is how a busy host slows training.
class GpuClock {
 public:
  GpuClock(Nanoseconds start_ns, Nanoseconds kernel_ns) : free_ns_(start_ns), kernel_ns_(kernel_ns) {}
  void launch(Nanoseconds now_ns) { free_ns_ = std::max(free_ns_, now_ns) + kernel_ns_; }
  /// When all that was launched is done.
  Nanoseconds free_ns() const { return free_ns_; }

 private:
  Nanoseconds free_ns_;
  Nanoseconds kernel_ns_;
};

/// When byte number `bytes` is due, for copies that began at `start_ns`. Precondition: bytes_per_s > 0.
Nanoseconds due_ns(Nanoseconds start_ns, std::uint64_t bytes, std::uint64_t bytes_per_s);

/// Throws Error(usage) that names the file and the field.
Workload load_workload(const std::filesystem::path& path);

/// The same training with another number of ranks: what a rank moves on the host is shared by more or fewer,
/// what its GPU computes stays.
Workload on_ranks(Workload workload, int ranks);

}  // namespace zf
