#include "machine/ranks.hpp"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <variant>

#include "machine/amd_gpus.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

/// A GPU, or the reason why it is unknown.
using GpuOrReason = std::variant<Gpu, std::string>;
/// GPUs by rank; absent: there is no GPU to name.
using FoundGpus = std::vector<std::optional<GpuOrReason>>;

std::string lower_case(std::string text) {
  for (char& letter : text) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return text;
}

std::vector<Gpu> usable_gpus(const Topology& topology) {
  std::vector<Gpu> usable;
  std::copy_if(topology.gpus.begin(), topology.gpus.end(), std::back_inserter(usable),
               [](const Gpu& gpu) { return gpu.usable; });
  return usable;
}

/// Returns who counts the GPUs of this machine: HIP if all are AMD's.
GpuRuntime runtime_of(const Topology& topology) {
  const auto is_amd = [](const Gpu& gpu) { return gpu.vendor_id == kAmd; };
  return !topology.gpus.empty() && std::all_of(topology.gpus.begin(), topology.gpus.end(), is_amd)
             ? GpuRuntime::hip
             : GpuRuntime::cuda;
}

/// Returns the step's GPUs. SLURM_STEP_GPUS names them by their numbers on the node: N of /dev/nvidiaN, which
/// is not always PCI order (the two differ on A100 systems). In a batch script SLURM_JOB_GPUS does the same.
std::optional<VisibleDevices> slurm_gpus(const Environment& environment) {
  auto devices = devices_in(environment, "SLURM_STEP_GPUS");
  return devices ? devices : devices_in(environment, "SLURM_JOB_GPUS");
}

/// Finds a GPU by the name that a variable gives it.
class GpuLookup {
 public:
  GpuLookup(const Environment& environment, const Topology& topology)
      : gpus_(usable_gpus(topology)), slurm_(slurm_gpus(environment)) {
    by_minor_ = !gpus_.empty() &&
                std::all_of(gpus_.begin(), gpus_.end(), [](const Gpu& g) { return g.minor.has_value(); });
    const bool alike =
        std::all_of(gpus_.begin(), gpus_.end(), [&](const Gpu& g) { return g.name == gpus_[0].name; });
    by_speed_ = !alike && !all_numbered() && environment.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID";
    if (slurm_) step_ = step_gpus();
  }

  std::size_t count() const { return gpus_.size(); }

  GpuOrReason find(const std::string& id, const std::string& variable) const {
    const std::string what = fmt::format("{} names \"{}\"", variable, id);
    if (const auto number = parse_number<std::size_t>(id)) return by_number(*number, variable, what);
    if (const auto gpu = by_alias(id)) return *gpu;
    if (id.starts_with("GPU-")) return by_uuid(id, what);
    if (id.starts_with("MIG-GPU-")) return by_uuid(id.substr(4, id.find('/') - 4), what);
    if (id.starts_with("MIG-"))
      return what + ", a MIG instance, and NVML does not tell which GPU it belongs to";
    return what + ", which is neither a number nor a UUID";
  }

  /// Returns the i-th of slurm_gpus().
  const GpuOrReason& of_step(std::size_t i) const { return step_[i]; }

  /// Returns the i-th GPU as frameworks count without a list: by their own numbers if all have one, else in
  /// PCI order. If one of them is divided, returns that as the reason. Precondition: i < count().
  GpuOrReason in_framework_order(std::size_t i) const {
    if (const auto divided = divided_gpu()) return *divided;
    std::vector<Gpu> gpus = gpus_;
    if (all_numbered()) {
      std::stable_sort(gpus.begin(), gpus.end(),
                       [](const Gpu& a, const Gpu& b) { return a.framework_number < b.framework_number; });
    }
    return gpus[i];
  }

  GpuOrReason in_pci_order(std::size_t number, const std::string& what) const {
    if (number < gpus_.size()) return gpus_[number];
    return fmt::format("{}, but {} {} visible here", what, print_count(gpus_.size(), "GPU"),
                       gpus_.size() == 1 ? "is" : "are");
  }

 private:
  bool all_numbered() const {
    return std::all_of(gpus_.begin(), gpus_.end(),
                       [](const Gpu& g) { return g.framework_number.has_value(); });
  }

  /// Returns a sentence about the first GPU that ROCm sees in parts; nothing if there is none.
  std::optional<std::string> divided_gpu() const {
    for (const Gpu& gpu : gpus_) {
      if (gpu.parts == 1) continue;
      return fmt::format("GPU {} is divided into {} parts: ROCm's numbers count its parts", gpu.pci_address,
                         gpu.parts);
    }
    return {};
  }

  /// Returns the step's GPUs in PCI order. The job sees them in that order, whatever their minor numbers are.
  std::vector<GpuOrReason> step_gpus() const {
    std::vector<GpuOrReason> found;
    for (const std::string& id : slurm_->ids) found.push_back(find(id, slurm_->variable));
    const auto known = [](const GpuOrReason& one) { return std::holds_alternative<Gpu>(one); };
    if (by_minor_ && std::all_of(found.begin(), found.end(), known)) {
      std::sort(found.begin(), found.end(), [](const GpuOrReason& a, const GpuOrReason& b) {
        return std::get<Gpu>(a).pci_address < std::get<Gpu>(b).pci_address;
      });
    }
    return found;
  }

  GpuOrReason by_number(std::size_t number, const std::string& variable, const std::string& what) const {
    if (const auto divided = divided_gpu()) return fmt::format("{}, but {}", what, *divided);
    if (variable.starts_with("SLURM_"))
      return by_minor_ ? by_minor(number, what) : in_one_order(number, what);
    if (by_speed_ && variable == "CUDA_VISIBLE_DEVICES") {
      return what +
             ", and CUDA numbers GPUs of different models by their speed: set CUDA_DEVICE_ORDER=PCI_BUS_ID";
    }
    if (!slurm_) return in_driver_order(number, what);

    const auto& step = slurm_->ids;
    const bool of_node = std::find(step.begin(), step.end(), std::to_string(number)) != step.end();
    const bool of_step = number < step.size();
    if (of_node && of_step && !same(step_[number], in_driver_order(number, what))) {
      return fmt::format(
          "{}, which may count the node's GPUs or those of {}: that depends on Slurm's ConstrainDevices",
          what, slurm_->variable);
    }
    if (of_step) return step_[number];
    if (of_node) return in_driver_order(number, what);
    return fmt::format("{}, which is not among {}", what, slurm_->variable);
  }

  /// Returns the GPU that CUDA or ROCm knows by this number: ROCm's own order may differ from that of PCI.
  /// HIP obeys CUDA_VISIBLE_DEVICES too.
  GpuOrReason in_driver_order(std::size_t number, const std::string& what) const {
    return number < gpus_.size() ? in_framework_order(number) : in_pci_order(number, what);
  }

  /// Returns the GPU of this number if it is the same in the driver's order and in that of PCI.
  GpuOrReason in_one_order(std::size_t number, const std::string& what) const {
    GpuOrReason found = in_pci_order(number, what);
    if (number >= gpus_.size() || same(found, in_driver_order(number, what))) return found;
    return fmt::format("{}, which may count in ROCm's order or in that of PCI, and these differ here", what);
  }

  GpuOrReason by_minor(std::size_t number, const std::string& what) const {
    const auto has = [&](const Gpu& gpu) { return static_cast<std::size_t>(*gpu.minor) == number; };
    const auto found = std::find_if(gpus_.begin(), gpus_.end(), has);
    if (found != gpus_.end()) return *found;
    return fmt::format("{}, but no GPU visible here is /dev/nvidia{}", what, number);
  }

  /// Returns true if both are the same GPU, or both are unknown.
  static bool same(const GpuOrReason& a, const GpuOrReason& b) {
    const Gpu* one = std::get_if<Gpu>(&a);
    const Gpu* other = std::get_if<Gpu>(&b);
    return one && other ? one->pci_address == other->pci_address : one == other;
  }

  std::optional<Gpu> by_alias(const std::string& id) const {
    for (const Gpu& gpu : gpus_) {
      if (std::find(gpu.aliases.begin(), gpu.aliases.end(), id) != gpu.aliases.end()) return gpu;
    }
    return {};
  }

  /// Returns the GPU whose UUID begins with `uuid`. As for CUDA, any beginning will do that only one GPU's
  /// UUID has.
  GpuOrReason by_uuid(const std::string& uuid, const std::string& what) const {
    const std::string wanted = lower_case(uuid);  // ROCm's own pages write its digits in capitals
    const auto has = [&](const Gpu& gpu) { return lower_case(gpu.uuid).starts_with(wanted); };
    const auto first = std::find_if(gpus_.begin(), gpus_.end(), has);
    if (first == gpus_.end())
      return what + ", which no GPU driver shows here (/proc/driver/nvidia/gpus, NVML, /sys/class/kfd)";
    if (std::count_if(gpus_.begin(), gpus_.end(), has) > 1)
      return what + ", and the UUIDs of several GPUs begin with it";
    return *first;
  }

  std::vector<Gpu> gpus_;
  std::optional<VisibleDevices> slurm_;
  std::vector<GpuOrReason> step_;  // by place in the step, in PCI order
  bool by_minor_ = false;          // false: no minors are known, and Slurm's numbers are taken for PCI order
  bool by_speed_ = false;
};

/// Collects the GPUs, with one note for all ranks that have the same reason.
RankGpus to_rank_gpus(const FoundGpus& found) {
  RankGpus result;
  std::map<std::string, std::vector<int>> ranks_by_reason;
  for (const auto& one : found) {
    const auto rank = static_cast<int>(result.gpus.size());
    result.gpus.emplace_back();
    if (!one) continue;
    if (const Gpu* gpu = std::get_if<Gpu>(&*one)) {
      result.gpus.back() = *gpu;
    } else {
      ranks_by_reason[std::get<std::string>(*one)].push_back(rank);
    }
  }
  for (const auto& [reason, ranks] : ranks_by_reason) {
    result.notes.push_back(
        ranks.size() == 1
            ? fmt::format("the GPU of rank {} is not known: {}", ranks.front(), reason)
            : fmt::format("the GPUs of ranks {} are not known: {}", fmt::join(ranks, ","), reason));
  }
  return result;
}

/// Finds the GPU of each rank as rank_gpus() promises.
FoundGpus counted_gpus(const Environment& environment, const Topology& topology, int ranks) {
  const Environment variables = topology.is_this_machine ? environment : Environment();
  const GpuLookup lookup(variables, topology);
  const auto visible = visible_devices(variables, runtime_of(topology));
  const auto slurm = slurm_gpus(variables);
  const auto& list = visible ? visible : slurm;
  FoundGpus found(static_cast<std::size_t>(ranks));
  if (list ? list->ids.empty() : lookup.count() == 0) return found;

  const std::size_t count = list ? list->ids.size() : lookup.count();
  const auto own_rank = visible && count < found.size() ? local_rank(variables) : std::nullopt;
  // A number under Slurm may count the step's GPUs, or those of this task.
  const bool own_numbers = own_rank && slurm && parse_number<std::size_t>(visible->ids.front());
  for (std::size_t rank = 0; rank < found.size(); ++rank) {
    if (own_rank && (own_numbers || static_cast<std::size_t>(own_rank->value) != rank)) {
      found[rank] = fmt::format(
          "{} is set for the task of rank {}; make the plan outside srun, or with srun --gpu-bind=none",
          list->variable, own_rank->value);
    } else if (const std::size_t at = own_rank ? 0 : rank; at >= count) {
      found[rank] = fmt::format("{} {} for {}", list ? list->variable + " lists" : "this machine has",
                                print_count(count, "GPU"), print_count(found.size(), "rank"));
    } else {
      found[rank] = visible ? lookup.find(visible->ids[at], visible->variable)
                    : slurm ? lookup.of_step(at)
                            : lookup.in_framework_order(at);
    }
  }
  return found;
}

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

bool has_gpu(const Plan& plan) {
  return std::any_of(plan.ranks.begin(), plan.ranks.end(), [](const RankBinding& rank) { return rank.gpu; });
}

/// Finds the plan's own GPUs. If it has any, ranks that it lacks have a reason.
FoundGpus planned_gpus_here(const Topology& topology, const Plan& plan, int ranks) {
  FoundGpus found(static_cast<std::size_t>(ranks));
  for (std::size_t rank = 0; rank < found.size(); ++rank) {
    if (rank >= plan.ranks.size()) {
      if (has_gpu(plan))
        found[rank] = fmt::format("the plan was made for {}", print_count(plan.ranks.size(), "rank"));
      continue;
    }
    const auto& planned = plan.ranks[rank].gpu;
    if (!planned) continue;
    const auto here = std::find_if(topology.gpus.begin(), topology.gpus.end(),
                                   [&](const Gpu& gpu) { return gpu.pci_address == planned->pci_address; });
    if (here != topology.gpus.end()) {
      found[rank] = *here;
    } else {
      found[rank] = fmt::format("the plan's GPU {} was not found here", planned->pci_address);
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

RankCount rank_count_of(std::optional<int> given, const Environment& environment, const Topology& topology) {
  if (given) return {*given, "--ranks"};
  const Environment variables = topology.is_this_machine ? environment : Environment();
  const GpuRuntime runtime = runtime_of(topology);
  if (const auto found = local_rank_count(variables, runtime)) return {found->value, found->variable};
  const bool hidden =
      visible_devices(variables, runtime).has_value();  // hides all: otherwise it was counted above
  const auto gpus = static_cast<int>(
      std::count_if(topology.gpus.begin(), topology.gpus.end(), [](const Gpu& gpu) { return gpu.usable; }));
  if (gpus > 0 && !hidden) return {gpus, print_count(static_cast<std::size_t>(gpus), "GPU")};
  return {1, "default"};
}

RankGpus rank_gpus(const Environment& environment, const Topology& topology, int ranks) {
  return to_rank_gpus(counted_gpus(environment, topology, ranks));
}

std::vector<Gpu> planned_gpus(const Plan& plan, const Topology& topology) {
  std::vector<Gpu> gpus;
  for (const RankBinding& rank : plan.ranks) {
    if (!rank.gpu) continue;
    Gpu gpu{rank.gpu->pci_address, "", rank.gpu->cpus, rank.gpu->node};
    gpu.minor = rank.gpu->minor;
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
        "homes are fitted to these nodes; zf-tune plan --from, on a node with the GPUs, fits them to the "
        "CPUs");
  }
  return gpus;
}

RankGpus renewed_gpus(const Environment& environment, const Topology& topology, const Plan& plan, int ranks) {
  if (const auto step = step_gpus(environment, topology, ranks)) return to_rank_gpus(*step);
  const FoundGpus planned = planned_gpus_here(topology, plan, ranks);
  const FoundGpus counted = counted_gpus(environment, topology, ranks);
  FoundGpus found = planned;
  std::vector<std::size_t> renewed;
  for (std::size_t rank = 0; rank < found.size(); ++rank) {
    if (!found[rank] || gpu_in(found[rank]) != nullptr || !counted[rank]) continue;
    const Gpu* const gpu = gpu_in(counted[rank]);
    const std::string& lacks = std::get<std::string>(*planned[rank]);
    if (gpu == nullptr) {
      found[rank] = fmt::format("{}, and {}", lacks, std::get<std::string>(*counted[rank]));
    } else if (const auto owner = rank_with(planned, *gpu)) {
      found[rank] = fmt::format("{}, and the GPU that it would have here, {}, is that of rank {} in the plan",
                                lacks, gpu->pci_address, *owner);
    } else {
      found[rank] = counted[rank];
      if (rank < plan.ranks.size()) renewed.push_back(rank);
    }
  }
  RankGpus gpus = to_rank_gpus(found);
  if (!renewed.empty()) {
    gpus.notes.push_back(
        renewed.size() == 1
            ? fmt::format(
                  "the plan's GPU of rank {} is not on this node: the rank has the GPU that frameworks "
                  "count here",
                  renewed.front())
            : fmt::format("the plan's GPUs of ranks {} are not on this node: the ranks have the GPUs that "
                          "frameworks count here",
                          fmt::join(renewed, ",")));
  }
  return gpus;
}

}  // namespace zf
