// A training step without a GPU and without a model: what it asks of the host, done for real on the reserved
// cores. The only file that knows oneTBB is load.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/clock.hpp"
#include "base/id_set.hpp"
#include "plan/workload.hpp"

namespace zf {

/// What some training steps took.
struct TrainingReading {
  Nanoseconds step_ns = 0;  ///< mean of the steps
  Nanoseconds launch_delay_p50_ns =
      0;  ///< what a launch took since the end of the one before, beyond its CPU time
  Nanoseconds launch_delay_p99_ns = 0;
  std::uint64_t bytes = 0;  ///< moved by copies and host work, all steps together
};

/// Threads that run training steps. In a step, at the same time: a chain of launches (each a oneTBB task that
/// enqueues the next), an imaginary GPU that runs their kernels and is idle when a launch comes late, and
/// copies at their pace, each byte read or written once as a GPU's DMA engine would, but by a thread. When
/// all of that is done, parallel work over the host's bytes. docs/load.md says what this leaves out.
///
/// One owner, on one thread. oneTBB's threads stay with the process: use it in one that ends.
class SyntheticTraining {
 public:
  /// `threads` of oneTBB in an arena of their own and two threads beside them, each bound to all of `cpus`
  /// and read back; `buffer_bytes` of memory (at least 1 MiB) that host work and copies go over again and
  /// again, touched by these threads. Throws Error(runtime_error) when a thread cannot be made or bound, or
  /// memory is short.
  SyntheticTraining(const CpuSet& cpus, int threads, std::size_t buffer_bytes, const TrainingDemand& demand);
  ~SyntheticTraining();
  SyntheticTraining(const SyntheticTraining&) = delete;
  SyntheticTraining& operator=(const SyntheticTraining&) = delete;

  /// Begins that many steps, one after the other, and returns at once. Precondition: none are under way.
  void start(int steps);
  /// Waits for them. Throws Error(runtime_error) for what went wrong in a thread. Precondition: start().
  TrainingReading wait();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Copies `bytes`, a multiple of 64, by non-temporal stores where the CPU has them: each byte of `from` is
/// read and each byte of `to` is written once, and nothing is read only to be overwritten. So the caches are
/// left alone, as by a GPU's DMA engine. Precondition: both are aligned to 64 and do not overlap.
void stream_copy(void* to, const void* from, std::size_t bytes);

}  // namespace zf
