// The CPUs and the memory of one rank: its home, and the two sides that share it.
#pragma once

#include <optional>
#include <vector>

#include "base/id_set.hpp"
#include "base/memory_policy.hpp"
#include "plan/rank_gpu.hpp"

namespace zf {

/// The CPUs that a rank owns: both sides, and what the plan leaves idle.
struct HomeSide {
  CpuSet cpus;
  int threads = 1;  ///< the right value of OMP_NUM_THREADS for a process that has the whole home: its cores
  bool operator==(const HomeSide&) const = default;
};

struct TrainingSide {
  CpuSet cpus;
  int threads = 1;  ///< the right value of OMP_NUM_THREADS
  bool operator==(const TrainingSide&) const = default;
};

struct OptimizerSide {
  CpuSet cpus;  ///< one pinned pool thread per PU, unless `threads` says otherwise
  NodeSet mems;
  MemoryPolicy memory_policy = MemoryPolicy::preferred;
  /// The number of pool threads, if neighbours share the CPUs (Allocation::shared_cpus): each of them may run
  /// on all of `cpus`. Absent: one pinned thread per PU.
  std::optional<int> threads = {};
  bool operator==(const OptimizerSide&) const = default;
};

/// Returns the number of the pool's threads.
inline int pool_threads(const OptimizerSide& side) {
  return side.threads.value_or(static_cast<int>(side.cpus.size()));
}

/// Returns the nodes that a process should prefer; empty if the plan prefers none.
inline NodeSet preferred_mems(const OptimizerSide& side) {
  return side.memory_policy == MemoryPolicy::none ? NodeSet() : side.mems;
}

struct RankBinding {
  int rank = 0;                         ///< local rank
  std::optional<RankGpu> gpu = {};      ///< absent: the rank has none, or it is not known
  std::vector<RankGpu> more_gpus = {};  ///< the rank's GPUs after `gpu` (GpuShare::gpus_per_rank)
  /// The GPU that the rank has under zf-tune exec --set-gpus; absent: `gpu`
  std::optional<RankGpu> spread_gpu = {};
  HomeSide home;
  TrainingSide training;
  OptimizerSide optimizer;
  int pt_reserved_cores = 0;  ///< cores, not PUs; 0 if shared, because training has no core of its own
  double pt_reserved_cores_perc =
      0;  ///< (training PUs - 0.5) / all PUs of the rank; DeepSpeed rounds it to the training PUs
  bool shared = false;  ///< training has the whole home, and the pool runs on some of the same CPUs
  CpuSet both_sides() const { return training.cpus | optimizer.cpus; }
  bool operator==(const RankBinding&) const = default;
};

/// Returns all GPUs of the rank; empty if they are not known.
inline std::vector<RankGpu> gpus_of(const RankBinding& rank) {
  std::vector<RankGpu> gpus = rank.more_gpus;
  if (rank.gpu) gpus.insert(gpus.begin(), *rank.gpu);
  return gpus;
}

}  // namespace zf
