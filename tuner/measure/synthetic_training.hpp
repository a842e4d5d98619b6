// Runs training steps without a GPU and without a model: does on the reserved cores what a training step
// demands of the host. Only synthetic_training.cpp uses oneTBB.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/clock.hpp"
#include "base/id_set.hpp"
#include "measure/compute_team.hpp"
#include "plan/workload.hpp"

namespace zf {

/// The times of some training steps.
struct TrainingReading {
  Nanoseconds step_ns = 0;  ///< mean of the steps
  Nanoseconds launch_delay_p50_ns =
      0;  ///< from the end of one launch to the end of the next, less its CPU time
  Nanoseconds launch_delay_p99_ns = 0;
  std::uint64_t bytes = 0;  ///< bytes moved by copies and host work in all steps
};

/// Runs training steps on threads of its own. Two things happen at the same time in a step: a chain of
/// launches (each is a oneTBB task that enqueues the next one), and an imaginary GPU that runs their kernels
/// and is idle if a launch is late. The last step of an update also has copies of the gradients at a given
/// pace, in which a thread reads or writes each byte once, as the DMA engine of a GPU would; parallel work
/// over the host's bytes follows it. A job without a GPU computes on a ComputeTeam, in many regions with its
/// serial work between them. docs/workload.md says what this leaves out.
///
/// Must be used by one thread. oneTBB's threads stay until the process ends, so use it in a short-lived
/// process.
class SyntheticTraining {
 public:
  /// Starts `threads` oneTBB threads in an arena of their own, two more threads, and as many for computing as
  /// that needs, and binds each to all of `cpus` (read back). Allocates `buffer_bytes` (at least 1 MiB),
  /// which oneTBB's threads touch, and which host work and copies use again and again. Throws
  /// Error(runtime_error) if a thread cannot be started or bound, or memory is short.
  ///
  /// Calls `while_held` while it holds as many sleeping threads as it starts afterwards. Processes that share
  /// a limit of threads can wait for each other there. Then none takes a thread that another one has counted
  /// as free. `while_held` may throw Error, which is passed on.
  SyntheticTraining(const CpuSet& cpus, int threads, std::size_t buffer_bytes,
                    const TrainingDemand& training_demand, const std::function<void()>& while_held = {});
  ~SyntheticTraining();
  SyntheticTraining(const SyntheticTraining&) = delete;
  SyntheticTraining& operator=(const SyntheticTraining&) = delete;

  /// Starts the training of one update, that many steps one after the other, and returns at once.
  /// `after_update`: what the threads that compute do when the last step is over. Precondition: no steps are
  /// running.
  void start(int steps, ComputeTeam::Afterwards after_update = ComputeTeam::Afterwards::spin);
  /// Waits for the steps and returns their times. Throws Error(runtime_error) if a thread failed.
  /// Precondition: start().
  TrainingReading wait();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zf
