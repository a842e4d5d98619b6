// What the caller wants of a launch: the plan, and what the caller knows of this process.
#pragma once

#include <filesystem>
#include <optional>

#include "launch/launched_by.hpp"
#include "launch/memory_launch.hpp"
#include "launch/openmp_launch.hpp"
#include "launch/thread_counts.hpp"
#include "plan/plan.hpp"

namespace zf {

/// Does a rank have the CPUs that this process may use, or all ranks?
enum class CpusOf {
  unsaid,  ///< find out, and refuse if it is ambiguous
  job,     ///< all ranks of this node share them
  rank,    ///< this rank has them alone, as in a container per rank
};

struct LaunchRequest {
  std::filesystem::path plan_path;
  std::optional<int> rank;                              ///< --rank
  bool force = false;                                   ///< continue in spite of errors, unbound if necessary
  std::optional<int> ranks = {};                        ///< on this node, if the caller knows
  CpusOf cpus_of = CpusOf::unsaid;                      ///< --cpus
  TorchrunsOne torchruns_one = TorchrunsOne::replaced;  ///< --keep-threads
  bool sets_gpus = false;                               ///< --set-gpus
  OpenmpVariables openmp = OpenmpVariables::removed;    ///< --omp
  MemoryChoice memory = MemoryChoice::unsaid;           ///< --memory-policy
  const Plan* plan = nullptr;  ///< instead of the file; then plan_path is what messages call it
  LaunchedBy by = LaunchedBy::exec;
};

}  // namespace zf
