#include "simulate/simulated_job.hpp"

#include "measure/training_demand.hpp"
#include "measure/working_set_size.hpp"
#include "measure/workload_file.hpp"

namespace zf {
namespace {

std::uint64_t total_memory_bytes(const Topology& topology) {
  std::uint64_t bytes = 0;
  for (const NumaNode& node : topology.nodes) bytes += node.memory_bytes;
  return bytes;
}

}  // namespace

SimulatedJob simulated_job(SimulatedMachine simulated, const Workload& workload, int ranks, GpuShare share) {
  const Workload on_these_ranks = on_ranks(workload, ranks);
  Machine machine{simulated.topology, allowed_from(allowed_inputs_of(simulated.topology))};
  RankGpus gpus = rank_gpus({}, machine.topology, ranks, share);
  RankHomes placed = rank_homes(machine, gpus);
  const WorkingSetSize size =
      working_set_size(on_these_ranks.params, ranks, last_level_cache_bytes(machine.topology),
                       total_memory_bytes(machine.topology));
  return {SimulatedModel(std::move(simulated), on_these_ranks),
          std::move(machine),
          std::move(gpus),
          std::move(placed),
          size.elements_per_rank,
          size.warning};
}

SimulatedJob simulated_job(const std::filesystem::path& path, const std::optional<Workload>& workload,
                           std::optional<int> ranks) {
  SimulatedMachine simulated = load_simulated_machine(path);
  const int count = ranks.value_or(simulated.ranks);
  const Workload own = workload ? *workload : load_workload(simulated.workload);
  return simulated_job(std::move(simulated), own, count);
}

}  // namespace zf
