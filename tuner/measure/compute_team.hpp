// Threads that compute as those of a training process without a GPU do: OpenMP's, under PyTorch.
#pragma once

#include <memory>

#include "base/clock.hpp"
#include "base/id_set.hpp"

namespace zf {

/// Runs parallel regions, and does two things that GNU's OpenMP runtime does. Every member has an equal share
/// of each region, which no other member takes over: if one of them loses its CPU, all wait. And after a
/// region the threads spin for some milliseconds before they sleep. So a region beside an optimizer step, or
/// a step soon after a region, takes longer than their CPU times say.
///
/// The thread that calls compute() is a member, and binds itself. One thread at a time may call it.
class ComputeTeam {
 public:
  /// The choice whether the threads spin after a region, as OpenMP does, or sleep.
  enum class Afterwards { spin, sleep };

  /// Starts `threads` - 1 threads, and binds each to all of `cpus` (read back). Throws Error(runtime_error)
  /// if a thread cannot be started or bound. Precondition: threads > 0.
  ComputeTeam(const CpuSet& cpus, int threads);
  ~ComputeTeam();
  ComputeTeam(const ComputeTeam&) = delete;
  ComputeTeam& operator=(const ComputeTeam&) = delete;

  /// Lets every member use `cpu_ns` of CPU time, and returns when the last one has.
  void compute(Nanoseconds cpu_ns, Afterwards afterwards = Afterwards::spin);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Spins until this thread has used `cpu_ns` of CPU time. Time in which the thread does not run does not
/// count.
void burn(Nanoseconds cpu_ns);

}  // namespace zf
