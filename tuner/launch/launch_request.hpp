// What the caller wants of a launch: the plan, and what the caller knows of this process.
#pragma once

#include <filesystem>
#include <optional>

#include "base/enum_names.hpp"
#include "launch/launched_by.hpp"
#include "launch/memory_launch.hpp"
#include "launch/openmp_launch.hpp"
#include "launch/thread_counts.hpp"
#include "os/environment.hpp"
#include "plan/plan.hpp"

namespace zf {

/// Which ranks have the CPUs that this process may use?
enum class CpusOf {
  job,   ///< all ranks of this node share them
  rank,  ///< this rank has them alone, as in a container per rank
};

template <>
inline constexpr auto kEnumNames<CpusOf> = std::to_array<EnumName<CpusOf>>({{CpusOf::job, "job"},
                                                                            {CpusOf::rank, "rank"}});

struct LaunchRequest {
  std::filesystem::path plan_path;
  std::optional<int> rank;             ///< --rank
  bool force = false;                  ///< continue in spite of errors, unbound if necessary
  std::optional<int> ranks = {};       ///< on this node, if the caller knows
  std::optional<CpusOf> cpus_of = {};  ///< --cpus; absent: find out, and refuse if it is ambiguous
  TorchrunsOne torchruns_one = TorchrunsOne::replaced;  ///< --keep-threads
  bool sets_gpus = false;                               ///< --set-gpus
  OpenmpVariables openmp = OpenmpVariables::removed;    ///< --omp
  std::optional<MemoryChoice> memory = {};              ///< --memory-policy
  const Plan* plan = nullptr;  ///< instead of the file; then plan_path is what messages call it
  LaunchedBy by = LaunchedBy::exec;
  /// With the variables of the launcher that gave this rank its number, where the environment of the launch
  /// lacks them; null: it has them.
  const Environment* launcher = nullptr;
};

/// Returns the variables of what has started this rank.
inline const Environment& launcher_variables(const LaunchRequest& request, const Environment& environment) {
  return request.launcher != nullptr ? *request.launcher : environment;
}

}  // namespace zf
