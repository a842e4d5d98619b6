#include "tuner/simulated_job.hpp"

#include "tuner/working_set_size.hpp"
#include "tuner/workload_file.hpp"

namespace zf {
namespace {

/// A GPU for every rank, in order.
std::vector<RankWish> wishes_of(const std::vector<Node>& gpu_nodes, int ranks) {
  std::vector<RankWish> wishes(static_cast<std::size_t>(ranks));
  for (std::size_t rank = 0; rank < wishes.size() && rank < gpu_nodes.size(); ++rank) {
    wishes[rank].near = gpu_nodes[rank];
  }
  return wishes;
}

std::uint64_t memory_bytes(const Topology& topology) {
  std::uint64_t bytes = 0;
  for (const NumaNode& node : topology.nodes) bytes += node.memory_bytes;
  return bytes;
}

}  // namespace

SimulatedJob simulated_job(SimulatedMachine simulated, const Workload& workload, int ranks) {
  const Workload spread = on_ranks(workload, ranks);
  Machine machine{simulated.topology, allowed_from(allowed_inputs_of(simulated.topology))};
  auto homes = homes_of(machine.topology, machine.allowed, wishes_of(simulated.gpu_nodes, ranks));
  const WorkingSetSize size = working_set_size(spread.params, ranks, last_level_cache_bytes(machine.topology),
                                               memory_bytes(machine.topology));
  return {SimulatedModel(std::move(simulated), spread), std::move(machine), std::move(homes),
          size.elements_per_rank, size.warning};
}

SimulatedJob simulated_job(const std::filesystem::path& path, const std::optional<Workload>& workload,
                           std::optional<int> ranks) {
  SimulatedMachine simulated = load_simulated_machine(path);
  const int count = ranks.value_or(simulated.ranks);
  const Workload own = workload ? *workload : load_workload(simulated.workload);
  return simulated_job(std::move(simulated), own, count);
}

}  // namespace zf
