#include "gpus/moved_gpus.hpp"

#include <algorithm>
#include <utility>

#include "base/format.hpp"
#include "gpus/gpu_lists.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

/// Returns how many GPUs this number of ranks has.
std::size_t gpus_for(int ranks, GpuShare share) {
  const int on_one = share.ranks_on_gpu();
  return static_cast<std::size_t>((ranks * share.gpus_of_rank() + on_one - 1) / on_one);
}

/// Returns the GPUs of the step by its ranks, if it names enough of them.
std::optional<FoundGpus> step_gpus(const Environment& environment, const Topology& topology, int ranks,
                                   GpuShare share) {
  const auto slurm = slurm_gpus(variables_for(environment, topology));
  if (!slurm || slurm->ids.size() < gpus_for(ranks, share)) return std::nullopt;
  const GpuLookup lookup(environment, topology);
  FoundGpus found;
  for (int place = 0; place < ranks * share.gpus_of_rank(); ++place)
    found.emplace_back(lookup.of_step(static_cast<std::size_t>(place / share.ranks_on_gpu())));
  return found;
}

/// Returns the GPUs of the list of visible devices by ranks, if it names one for each and all are known.
std::optional<FoundGpus> listed_gpus(const Environment& environment, const Topology& topology, int ranks,
                                     GpuShare share) {
  const auto list = visible_devices(variables_for(environment, topology), runtime_of(topology));
  if (!list || list->ids.size() < gpus_for(ranks, share)) return std::nullopt;
  FoundGpus found = found_gpus(environment, topology, ranks, share);
  return all_known(found) ? std::optional(std::move(found)) : std::nullopt;
}

bool has_gpu(const Plan& plan) {
  return std::ranges::any_of(plan.ranks, [](const RankBinding& rank) { return rank.gpu.has_value(); });
}

/// Finds one GPU of the plan here, or says why it is not.
FoundGpu planned_gpu_here(const Topology& topology, const std::vector<Gpu>& usable, const RankGpu& planned) {
  if (const Gpu* const found = gpu_at(usable, planned.pci_address)) return *found;
  const Gpu* const here = gpu_at(topology.gpus, planned.pci_address);
  if (here == nullptr) return format_text("the plan's GPU {} was not found here", planned.pci_address);
  return format_text("the plan's GPU {} cannot be used: {}", planned.pci_address, here->why_unusable);
}

/// Finds the plan's own GPUs. If it has any, ranks that it lacks have a reason.
FoundGpus planned_gpus_here(const Topology& topology, const Plan& plan, int ranks) {
  const auto each = static_cast<std::size_t>(plan.intent.gpu_share().gpus_of_rank());
  const std::vector<Gpu> usable = usable_gpus(topology);
  FoundGpus found(static_cast<std::size_t>(ranks) * each);
  for (std::size_t place = 0; place < found.size(); ++place) {
    const std::size_t rank = place / each;
    if (rank >= plan.ranks.size()) {
      if (has_gpu(plan))
        found[place] = format_text("the plan was made for {}", print_count(plan.ranks.size(), "rank"));
      continue;
    }
    const std::vector<RankGpu> planned = gpus_of(plan.ranks[rank]);
    if (place % each < planned.size())
      found[place] = planned_gpu_here(topology, usable, planned[place % each]);
  }
  return found;
}

/// Finds the GPUs that the plan offers to spread the ranks over packages. Returns nothing unless it has one
/// for each of as many ranks and all are here.
std::vector<Gpu> planned_spread(const Topology& topology, const Plan& plan, int ranks) {
  std::vector<Gpu> spread;
  const std::vector<Gpu> usable = usable_gpus(topology);
  for (const RankBinding& rank : plan.ranks) {
    if (!rank.spread_gpu || plan.ranks.size() != static_cast<std::size_t>(ranks)) return {};
    const FoundGpu here = planned_gpu_here(topology, usable, *rank.spread_gpu);
    if (gpu_in(here) == nullptr) return {};
    spread.push_back(*gpu_in(here));
  }
  return spread;
}

/// Returns the NUMA node of each GPU that the plan's node had, in the order of PCI; nothing if it is not
/// known.
std::vector<std::optional<Node>> planned_nodes(const Plan& plan) {
  std::vector<std::optional<Node>> nodes;
  if (!plan.gpus) return nodes;
  for (const GpuPlace& place : plan.gpus->places)
    nodes.insert(nodes.end(), static_cast<std::size_t>(place.count), place.node);
  return nodes;
}

/// Returns whether GPUs are on other nodes here than where the plan was made, or are more or fewer.
bool are_elsewhere(const Topology& topology, const Plan& plan) {
  return !std::ranges::equal(planned_nodes(plan), topology.gpus, {}, {}, &Gpu::node);
}

/// Returns whether GPUs are elsewhere here, and the plan's ranks had the first ones where it was made. Then
/// the ranks have the first ones here, too, and equal addresses mean nothing.
bool are_counted_anew(const Topology& topology, const Plan& plan, GpuShare share) {
  const std::vector<std::optional<Node>> nodes = planned_nodes(plan);
  std::size_t place = 0;
  for (const RankBinding& rank : plan.ranks) {
    for (const RankGpu& gpu : gpus_of(rank)) {
      const std::size_t number = place++ / static_cast<std::size_t>(share.ranks_on_gpu());
      if (number >= nodes.size() || nodes[number] != gpu.node) return false;
    }
  }
  return place > 0 && are_elsewhere(topology, plan);
}

/// Adds the plan's GPU, unless it is there.
void add_planned(const RankGpu& planned, const Topology& topology, std::vector<Gpu>& gpus) {
  if (gpu_at(gpus, planned.pci_address) != nullptr) return;
  Gpu gpu{planned.pci_address, "", planned.cpus, planned.node};
  gpu.minor = planned.minor;
  gpu.uuid = planned.uuid;
  gpu.cuda_number = planned.cuda_number;
  for (const NumaNode& node : topology.nodes) {
    if (gpu.local_cpus.empty() && node.id == gpu.node) gpu.local_cpus = node.cpus;
  }
  gpus.push_back(std::move(gpu));
}

}  // namespace

std::vector<Gpu> planned_gpus(const Plan& plan, const Topology& topology) {
  std::vector<Gpu> gpus;
  for (const RankBinding& rank : plan.ranks) {
    for (const RankGpu& gpu : gpus_of(rank)) add_planned(gpu, topology, gpus);
    if (rank.spread_gpu) add_planned(*rank.spread_gpu, topology, gpus);
  }
  std::ranges::sort(gpus, {}, &Gpu::pci_address);
  return gpus;
}

RankGpus moved_gpus(const Environment& environment, const Topology& topology, const Plan& plan, int ranks) {
  const GpuShare share = plan.intent.gpu_share();
  if (const auto step = step_gpus(environment, topology, ranks, share)) return to_rank_gpus(*step, share);
  RankGpus gpus = to_rank_gpus(planned_gpus_here(topology, plan, ranks), share);
  gpus.spread = planned_spread(topology, plan, ranks);
  return gpus;
}

RankGpus renewed_gpus(const Environment& environment, const Topology& topology, const Plan& plan, int ranks,
                      GpuShare said) {
  const GpuShare share = plan.intent.gpu_share();
  if (said.is_given() && said != share) return rank_gpus(environment, topology, ranks, said);
  if (plan.gpus && !has_gpu(plan) && are_elsewhere(topology, plan))
    return rank_gpus(environment, topology, ranks, share);
  if (const auto step = step_gpus(environment, topology, ranks, share)) return to_rank_gpus(*step, share);
  if (const auto listed = listed_gpus(environment, topology, ranks, share); listed && has_gpu(plan))
    return to_rank_gpus(*listed, share);
  const FoundGpus counted = found_gpus(environment, topology, ranks, share);
  if (are_counted_anew(topology, plan, share) && all_known(counted)) return to_rank_gpus(counted, share);
  const FoundGpus planned = planned_gpus_here(topology, plan, ranks);
  const auto each = static_cast<std::size_t>(share.gpus_of_rank());
  FoundGpus found = planned;
  std::vector<std::size_t> renewed;
  for (std::size_t place = 0; place < found.size(); ++place) {
    const std::size_t rank = place / each;
    const auto* const lacks = std::get_if<std::string>(&planned[place]);
    if (lacks == nullptr || std::holds_alternative<std::monostate>(counted[place])) continue;
    const Gpu* const gpu = gpu_in(counted[place]);
    const auto owner =
        share.ranks_on_gpu() == 1
            ? std::ranges::find_if(planned, [&](const auto& one) { return are_same(one, counted[place]); })
            : planned.end();
    if (gpu == nullptr) {
      found[place] = format_text("{}, and {}", *lacks, std::get<std::string>(counted[place]));
    } else if (owner != planned.end()) {
      found[place] =
          format_text("{}, and the GPU that it would have here, {}, is that of rank {} in the plan", *lacks,
                      gpu->pci_address, static_cast<std::size_t>(owner - planned.begin()) / each);
    } else {
      found[place] = counted[place];
      if (rank < plan.ranks.size() && (renewed.empty() || renewed.back() != rank)) renewed.push_back(rank);
    }
  }
  RankGpus gpus = to_rank_gpus(found, share);
  if (!renewed.empty()) {
    const bool any_here = std::ranges::any_of(renewed, [&](std::size_t rank) {
      return gpu_at(topology.gpus, plan.ranks[rank].gpu->pci_address) != nullptr;
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
  if (std::ranges::equal(found, counted, are_same)) note_unused_gpus(environment, topology, gpus);
  return gpus;
}

}  // namespace zf
