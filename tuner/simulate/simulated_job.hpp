// Makes a job on a simulated machine: everything that a sweep needs on a real one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "homes/rank_homes.hpp"
#include "machine/machine.hpp"
#include "simulate/simulated_model.hpp"

namespace zf {

struct SimulatedJob {
  SimulatedModel model;
  Machine machine;  ///< all of it allowed
  RankGpus gpus;
  RankHomes placed;
  std::uint64_t elements_per_rank = 0;
  std::string warning;  ///< that of WorkingSetSize
};

/// Returns the job of a workload with that many ranks. The second form reads the machine from `path`; unless
/// they are given, the workload and the number of ranks are those of the machine's file. Ranks live near
/// their GPUs. Throws Error as load_simulated_machine(), load_workload() and rank_homes() do.
SimulatedJob simulated_job(SimulatedMachine simulated, const Workload& workload, int ranks,
                           GpuShare share = {});
SimulatedJob simulated_job(const std::filesystem::path& path, const std::optional<Workload>& workload,
                           std::optional<int> ranks);

}  // namespace zf
