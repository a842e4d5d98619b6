#include "machine/moved_gpus.hpp"

#include <algorithm>
#include <utility>

#include "base/format.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

/// Returns the GPUs of the step by its ranks, if it names enough of them.
std::optional<FoundGpus> step_gpus(const Environment& environment, const Topology& topology, int ranks) {
  const auto slurm = topology.is_this_machine ? slurm_gpus(environment) : std::nullopt;
  if (!slurm || slurm->ids.size() < static_cast<std::size_t>(ranks)) return std::nullopt;
  const GpuLookup lookup(environment, topology);
  FoundGpus found;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank)
    found.emplace_back(lookup.of_step(rank));
  return found;
}

/// Returns the GPUs of the list of visible devices by ranks, if it names one for each and all are known.
std::optional<FoundGpus> listed_gpus(const Environment& environment, const Topology& topology, int ranks) {
  const auto list =
      topology.is_this_machine ? visible_devices(environment, runtime_of(topology)) : std::nullopt;
  if (!list || list->ids.size() < static_cast<std::size_t>(ranks)) return std::nullopt;
  FoundGpus found = found_gpus(environment, topology, ranks);
  const auto is_gpu = [](const auto& one) { return one && std::holds_alternative<Gpu>(*one); };
  return std::all_of(found.begin(), found.end(), is_gpu) ? std::optional(std::move(found)) : std::nullopt;
}

bool has_gpu(const Plan& plan) {
  return std::any_of(plan.ranks.begin(), plan.ranks.end(), [](const RankBinding& rank) { return rank.gpu; });
}

/// Returns true if the GPU is on this node, usable or not.
bool is_here(const Topology& topology, const std::string& address) {
  return std::any_of(topology.gpus.begin(), topology.gpus.end(),
                     [&](const Gpu& gpu) { return gpu.pci_address == address; });
}

/// Finds the plan's own GPUs. If it has any, ranks that it lacks have a reason.
FoundGpus planned_gpus_here(const Topology& topology, const Plan& plan, int ranks) {
  FoundGpus found(static_cast<std::size_t>(ranks));
  for (std::size_t rank = 0; rank < found.size(); ++rank) {
    if (rank >= plan.ranks.size()) {
      if (has_gpu(plan))
        found[rank] = format_text("the plan was made for {}", print_count(plan.ranks.size(), "rank"));
      continue;
    }
    const auto& planned = plan.ranks[rank].gpu;
    if (!planned) continue;
    const auto here = std::find_if(topology.gpus.begin(), topology.gpus.end(),
                                   [&](const Gpu& gpu) { return gpu.pci_address == planned->pci_address; });
    if (here == topology.gpus.end()) {
      found[rank] = format_text("the plan's GPU {} was not found here", planned->pci_address);
    } else if (!here->usable) {
      found[rank] =
          format_text("the plan's GPU {} cannot be used: {}", planned->pci_address, here->why_unusable);
    } else {
      found[rank] = *here;
    }
  }
  return found;
}

const Gpu* gpu_in(const std::optional<GpuOrReason>& one) { return one ? std::get_if<Gpu>(&*one) : nullptr; }

/// Returns the rank that has this GPU; nothing if none has it.
std::optional<std::size_t> rank_with(const FoundGpus& found, const Gpu& gpu) {
  for (std::size_t rank = 0; rank < found.size(); ++rank) {
    const Gpu* const other = gpu_in(found[rank]);
    if (other != nullptr && other->pci_address == gpu.pci_address) return rank;
  }
  return std::nullopt;
}

}  // namespace

std::vector<Gpu> planned_gpus(const Plan& plan, const Topology& topology) {
  std::vector<Gpu> gpus;
  for (const RankBinding& rank : plan.ranks) {
    if (!rank.gpu) continue;
    Gpu gpu{rank.gpu->pci_address, "", rank.gpu->cpus, rank.gpu->node};
    gpu.minor = rank.gpu->minor;
    gpu.uuid = rank.gpu->uuid;
    for (const NumaNode& node : topology.nodes) {
      if (!gpu.local_cpus.empty() || node.id != gpu.node) continue;
      gpu.local_cpus = node.cpus;
      gpu.by_node = true;
    }
    gpus.push_back(std::move(gpu));
  }
  std::sort(gpus.begin(), gpus.end(),
            [](const Gpu& a, const Gpu& b) { return a.pci_address < b.pci_address; });
  return gpus;
}

RankGpus moved_gpus(const Environment& environment, const Topology& topology, const Plan& plan, int ranks) {
  if (const auto step = step_gpus(environment, topology, ranks)) return to_rank_gpus(*step);
  RankGpus gpus = to_rank_gpus(planned_gpus_here(topology, plan, ranks));
  if (std::any_of(gpus.gpus.begin(), gpus.gpus.end(), [](const auto& gpu) { return gpu && gpu->by_node; })) {
    gpus.notes.emplace_back(
        "the plan is of an older format and says the NUMA nodes of its GPUs, not the CPUs near them: the "
        "homes are fitted to these nodes; zf-tune plan --from, on a node with the GPUs, "
        "fits them to the CPUs");
  }
  return gpus;
}

RankGpus renewed_gpus(const Environment& environment, const Topology& topology, const Plan& plan, int ranks) {
  if (const auto step = step_gpus(environment, topology, ranks)) return to_rank_gpus(*step);
  if (const auto listed = listed_gpus(environment, topology, ranks); listed && has_gpu(plan))
    return to_rank_gpus(*listed);
  const FoundGpus planned = planned_gpus_here(topology, plan, ranks);
  const FoundGpus counted = found_gpus(environment, topology, ranks);
  FoundGpus found = planned;
  std::vector<std::size_t> renewed;
  for (std::size_t rank = 0; rank < found.size(); ++rank) {
    if (!found[rank] || gpu_in(found[rank]) != nullptr || !counted[rank]) continue;
    const Gpu* const gpu = gpu_in(counted[rank]);
    const std::string& lacks = std::get<std::string>(*planned[rank]);
    if (gpu == nullptr) {
      found[rank] = format_text("{}, and {}", lacks, std::get<std::string>(*counted[rank]));
    } else if (const auto owner = rank_with(planned, *gpu)) {
      found[rank] = format_text("{}, and the GPU that it would have here, {}, is that of rank {} in the plan",
                                lacks, gpu->pci_address, *owner);
    } else {
      found[rank] = counted[rank];
      if (rank < plan.ranks.size()) renewed.push_back(rank);
    }
  }
  RankGpus gpus = to_rank_gpus(found);
  if (!renewed.empty()) {
    const bool any_here = std::any_of(renewed.begin(), renewed.end(), [&](std::size_t rank) {
      return is_here(topology, plan.ranks[rank].gpu->pci_address);
    });
    const char* const where = any_here ? "usable here" : "on this node";
    gpus.notes.push_back(
        renewed.size() == 1
            ? format_text("the plan's GPU of rank {} is not {}: "
                          "the rank has the GPU that frameworks count here",
                          renewed.front(), where)
            : format_text("the plan's GPUs of ranks {} are not {}: the ranks have the GPUs that "
                          "frameworks count here",
                          join_text(renewed, ","), where));
  }
  return gpus;
}

}  // namespace zf
