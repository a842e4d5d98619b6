// A job on a simulated machine: everything that a sweep needs, as it would be on a real one.
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
  std::string warning;  ///< see WorkingSetSize
};

/// A machine with a workload on so many ranks; or the machine of `path` with its own workload, or with
/// `workload`, and as many ranks as the machine's file says. Ranks live near their GPUs. Throws Error like
/// load_simulated_machine(), load_workload() and rank_homes().
SimulatedJob simulated_job(SimulatedMachine simulated, const Workload& workload, int ranks);
SimulatedJob simulated_job(const std::filesystem::path& path, const std::optional<Workload>& workload,
                           std::optional<int> ranks);

}  // namespace zf
