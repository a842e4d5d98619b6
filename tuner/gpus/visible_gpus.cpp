#include "gpus/visible_gpus.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "base/format.hpp"
#include "base/text.hpp"
#include "gpus/gpu_lists.hpp"
#include "gpus/rank_gpus.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

/// Whether an entry of a list is the GPU of a rank; nothing: that cannot be known.
using Same = std::optional<bool>;

bool are_numbers(const VisibleDevices& list) {
  return std::ranges::all_of(list.ids, [](const auto& id) { return parse_number<int>(id).has_value(); });
}

std::size_t count_known(const PlannedGpus& planned) {
  return static_cast<std::size_t>(
      std::ranges::count_if(planned, [](const auto& gpu) { return gpu.has_value(); }));
}

/// Returns "/dev/nvidia0,1" if the minors of all are known, else "0000:10:00.0 and 0000:20:00.0".
std::string names_of(const PlannedGpus& planned) {
  std::vector<int> minors;
  std::vector<std::string> addresses;
  for (const auto& gpu : planned) {
    if (!gpu) continue;
    if (gpu->minor) minors.push_back(*gpu->minor);
    addresses.push_back(gpu->pci_address);
  }
  return minors.size() == addresses.size() ? format_text("/dev/nvidia{}", join_text(minors, ","))
                                           : enumerated(addresses);
}

/// Returns "CUDA_VISIBLE_DEVICES lists 6,7, and the plan's GPUs are /dev/nvidia0,1".
std::string both_in_words(const VisibleDevices& list, const PlannedGpus& planned) {
  return format_text("{} lists {}, and the plan's GPU{} {}", list.variable, join_text(list.ids, ","),
                     count_known(planned) == 1 ? " is" : "s are", names_of(planned));
}

VisibleGpus not_compared(const VisibleDevices& list, const PlannedGpus& planned, const std::string& why) {
  return {{}, format_text("{}: these cannot be compared, because {}", both_in_words(list, planned), why)};
}

/// Returns true if the GPUs of higher PCI addresses have higher minors, as they do on most machines.
bool minors_in_pci_order(const PlannedGpus& planned) {
  std::map<std::string, int> minors;  // by address
  for (const auto& gpu : planned) {
    if (gpu && gpu->minor) minors[gpu->pci_address] = *gpu->minor;
  }
  return std::ranges::is_sorted(minors, {}, [](const auto& one) { return one.second; });
}

/// Compares an entry by what the plan says of the GPU.
Same same_by_plan(const std::optional<RankGpu>& gpu, const std::string& id) {
  if (const auto number = parse_number<int>(id)) return gpu->minor ? Same(*gpu->minor == *number) : Same();
  const auto uuid = uuid_in_name(id);
  return uuid && !gpu->uuid.empty() ? Same(begins_uuid(*uuid, gpu->uuid)) : Same();
}

/// Returns the GPUs of Slurm's list by rank: in PCI order, if the plan has all of them, else as they stand.
VisibleDevices in_pci_order(VisibleDevices list, const PlannedGpus& planned) {
  const auto address = [&](const std::string& id) -> std::string {
    for (const auto& gpu : planned) {
      if (gpu && gpu->minor && std::to_string(*gpu->minor) == id) return gpu->pci_address;
    }
    return {};
  };
  if (std::ranges::none_of(list.ids, [&](const auto& id) { return address(id).empty(); }))
    std::ranges::sort(list.ids, {}, address);
  return list;
}

bool has_all(const VisibleDevices& list, const PlannedGpus& planned) {
  return std::ranges::all_of(planned, [&](const auto& gpu) {
    return !gpu || std::ranges::any_of(list.ids,
                                       [&](const auto& id) { return same_by_plan(gpu, id).value_or(false); });
  });
}

/// Compares rank by rank: `same` of a rank and an entry. Precondition: the list is as long as `planned`, or
/// longer.
VisibleGpus by_rank(const VisibleDevices& list, const PlannedGpus& planned, auto same) {
  bool differs = false;
  for (std::size_t rank = 0; rank < planned.size(); ++rank) {
    if (!planned[rank]) continue;
    const Same one = same(rank, list.ids[rank]);
    if (!one) {
      return not_compared(list, planned,
                          format_text("the plan does not say which GPU \"{}\" is", list.ids[rank]));
    }
    differs = differs || !*one;
  }
  return differs ? VisibleGpus{both_in_words(list, planned), {}} : VisibleGpus();
}

/// Compares rank by rank by what the plan says of its GPUs.
VisibleGpus by_plan(const VisibleDevices& list, const PlannedGpus& planned) {
  return by_rank(list, planned,
                 [&](std::size_t rank, const std::string& id) { return same_by_plan(planned[rank], id); });
}

/// Withdraws a difference by CUDA's numbers if these may count the GPUs of a container.
VisibleGpus unless_of_container(const VisibleDevices& list, const PlannedGpus& planned,
                                VisibleGpus compared) {
  const bool small = std::ranges::all_of(list.ids, [&](const std::string& id) {
    const auto number = parse_number<int>(id);
    return number && *number < static_cast<int>(planned.size());
  });
  if (compared.difference.empty() || !small) return compared;
  return not_compared(list, planned, "such low numbers may count the GPUs of a container");
}

/// Compares CUDA's numbers with the plan's minors, and UUIDs with its UUIDs.
VisibleGpus compare_visible(const VisibleDevices& list, const PlannedGpus& planned) {
  VisibleGpus compared = by_plan(list, planned);
  if (!compared.difference.empty() && are_numbers(list) && !minors_in_pci_order(planned))
    return not_compared(list, planned, "CUDA counts in PCI order, and the device files do not");
  return unless_of_container(list, planned, std::move(compared));
}

VisibleGpus compare_container(const VisibleDevices& list, const PlannedGpus& planned) {
  for (const auto& gpu : planned) {
    if (gpu && gpu->uuid.empty())
      return not_compared(list, planned, format_text("the UUID of {} is not known", gpu->pci_address));
  }
  for (const std::string& id : list.ids) {
    if (!uuid_in_name(id)) return not_compared(list, planned, format_text("\"{}\" is a MIG instance", id));
  }
  return has_all(list, planned) ? VisibleGpus() : VisibleGpus{both_in_words(list, planned), {}};
}

/// Compares Slurm's list. If it has more GPUs than there are ranks, and some that the plan does not know, it
/// is not known which of them are the first in PCI order: then it need only have the plan's.
VisibleGpus compare_slurm(const VisibleDevices& list, const PlannedGpus& planned) {
  const VisibleGpus compared = by_plan(list, planned);
  if (!compared.difference.empty() && list.ids.size() > planned.size() && has_all(list, planned)) return {};
  return compared;
}

/// Which list is compared, and how; or why none is.
struct Chosen {
  VisibleGpus (*compare)(const VisibleDevices&, const PlannedGpus&) = nullptr;
  VisibleDevices list = {};
  std::string not_compared = {};
};

/// Says that a list may be one rank's own, if it is shorter than that of the plan's GPUs.
Chosen unless_short(Chosen chosen, std::size_t gpus) {
  if (chosen.list.ids.empty()) return {};
  if (chosen.list.ids.size() >= gpus) return chosen;
  return {nullptr,
          {},
          format_text(
              "{} lists {}, fewer than the plan's {}, so it may be one rank's own: it is not compared with "
              "the plan's GPUs",
              chosen.list.variable, print_count(chosen.list.ids.size(), "GPU"), gpus)};
}

Chosen chosen_list(const Environment& environment, const PlannedGpus& planned, GpuRuntime runtime) {
  if (count_known(planned) == 0) return {};
  auto visible = visible_devices(environment, runtime);
  auto slurm = slurm_gpus(environment);
  if (!visible && slurm)
    return unless_short({compare_slurm, in_pci_order(*std::move(slurm), planned)}, planned.size());
  if (!visible) {
    auto container = container_gpus(environment);
    if (!container) return {};
    return unless_short({compare_container, *std::move(container)}, planned.size());
  }
  const bool is_short = visible->ids.size() < planned.size();  // it may be one rank's own
  const bool slurm_too = slurm && are_numbers(*visible) && !is_short;
  const bool step_has_all = slurm && slurm->ids.size() >= planned.size();
  if ((is_short && step_has_all) || (slurm_too && slurm->ids.size() == visible->ids.size()))
    return {compare_slurm, in_pci_order(*std::move(slurm), planned)};
  if (!slurm_too) return unless_short({compare_visible, *std::move(visible)}, planned.size());
  const std::string why =
      format_text("its numbers may count the node's GPUs or those of {}", slurm->variable);
  return {nullptr, {}, not_compared(*visible, planned, why).not_compared};
}

VisibleGpus compare_chosen(const Chosen& chosen, const PlannedGpus& planned) {
  if (chosen.compare == nullptr) return {{}, chosen.not_compared};
  return chosen.compare(chosen.list, planned);
}

/// Adds minors and UUIDs that the plan lacks, from the GPUs at the same PCI addresses.
void add_what_is_here(PlannedGpus& planned, const Topology& topology) {
  for (auto& gpu : planned) {
    const Gpu* const here = gpu ? gpu_at(topology.gpus, gpu->pci_address) : nullptr;
    if (here == nullptr) continue;
    if (!gpu->minor) gpu->minor = here->minor;
    if (gpu->uuid.empty()) gpu->uuid = here->uuid;
  }
}

}  // namespace

PlannedGpus gpus_of_ranks(const Plan& plan) {
  const GpuShare share = plan.intent.gpu_share();
  PlannedGpus gpus;
  const auto on_one = static_cast<std::size_t>(share.ranks_on_gpu());
  const auto each = static_cast<std::size_t>(share.gpus_of_rank());
  for (std::size_t rank = 0; rank < plan.ranks.size(); rank += on_one) {
    const RankBinding& binding = plan.ranks[rank];
    gpus.push_back(binding.gpu);
    gpus.insert(gpus.end(), binding.more_gpus.begin(), binding.more_gpus.end());
    gpus.resize((rank / on_one + 1) * each);
  }
  return gpus;
}

VisibleGpus compare_visible_gpus(const Environment& environment, const PlannedGpus& planned) {
  return compare_chosen(chosen_list(environment, planned, GpuRuntime::cuda), planned);
}

VisibleGpus compare_visible_gpus(const Environment& environment, PlannedGpus planned,
                                 const Topology& topology) {
  if (!topology.is_this_machine) return {};
  add_what_is_here(planned, topology);
  const GpuRuntime runtime = runtime_of(topology);
  const Chosen chosen = chosen_list(environment, planned, runtime);
  const bool by_found = chosen.compare == compare_visible || chosen.compare == compare_slurm;
  const FoundGpus found =
      by_found ? found_gpus(environment, topology, static_cast<int>(planned.size())) : FoundGpus(1);
  if (!all_known(found)) return compare_chosen(chosen, planned);
  VisibleGpus compared = by_rank(chosen.list, planned, [&](std::size_t rank, const std::string&) {
    return Same(gpu_in(found[rank])->pci_address == planned[rank]->pci_address);
  });
  // Where a driver hides GPUs, the others are those of the container, and the numbers count them.
  const bool hides_some = !std::ranges::all_of(topology.gpus, &Gpu::usable);
  const bool certain = chosen.compare == compare_slurm || runtime == GpuRuntime::hip || hides_some;
  return certain ? compared : unless_of_container(chosen.list, planned, std::move(compared));
}

}  // namespace zf
