#include "machine/ranks.hpp"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <variant>

namespace zf {

RankCount rank_count_of(std::optional<int> given, const Environment& environment, const Topology& topology) {
  if (given) return {*given, "--ranks"};
  if (!topology.is_this_machine) return {1, "default"};
  if (const auto found = local_rank_count(environment)) return {found->value, found->variable};
  const bool hidden = visible_devices(environment).has_value();  // to none, or it would have been counted
  const auto gpus = static_cast<int>(
      std::count_if(topology.gpus.begin(), topology.gpus.end(), [](const Gpu& gpu) { return gpu.usable; }));
  if (gpus > 0 && !hidden) return {gpus, fmt::format("{} GPU{}", gpus, gpus == 1 ? "" : "s")};
  return {1, "default"};
}

namespace {

/// A GPU, or in words why it is not known.
using Found = std::variant<Gpu, std::string>;

std::optional<std::size_t> number_of(const std::string& text) {
  std::size_t value = 0;
  const char* end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && last == end ? std::optional(value) : std::nullopt;
}

std::vector<Gpu> usable_gpus(const Topology& topology) {
  std::vector<Gpu> usable;
  std::copy_if(topology.gpus.begin(), topology.gpus.end(), std::back_inserter(usable),
               [](const Gpu& gpu) { return gpu.usable; });
  return usable;
}

/// SLURM_STEP_GPUS names the step's GPUs by their numbers on the node (N of /dev/nvidiaN, in no particular
/// PCI order: the two differ on A100 systems); so does SLURM_JOB_GPUS in a batch script.
std::optional<VisibleDevices> slurm_gpus(const Environment& environment) {
  auto devices = devices_in(environment, "SLURM_STEP_GPUS");
  return devices ? devices : devices_in(environment, "SLURM_JOB_GPUS");
}

/// Finds a GPU by what a variable calls it.
class Lookup {
 public:
  Lookup(const Environment& environment, const Topology& topology)
      : gpus_(usable_gpus(topology)), slurm_(slurm_gpus(environment)) {
    by_minor_ = !gpus_.empty() &&
                std::all_of(gpus_.begin(), gpus_.end(), [](const Gpu& g) { return g.minor.has_value(); });
    const bool alike =
        std::all_of(gpus_.begin(), gpus_.end(), [&](const Gpu& g) { return g.name == gpus_[0].name; });
    by_speed_ = !alike && environment.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID";
    if (slurm_) step_ = step_gpus();
  }

  std::size_t count() const { return gpus_.size(); }

  Found find(const std::string& id, const std::string& variable) const {
    const std::string what = fmt::format("{} names \"{}\"", variable, id);
    if (const auto number = number_of(id)) return by_number(*number, variable, what);
    if (const auto gpu = by_alias(id)) return *gpu;
    if (id.starts_with("GPU-")) return by_uuid(id, what);
    if (id.starts_with("MIG-GPU-")) return by_uuid(id.substr(4, id.find('/') - 4), what);
    if (id.starts_with("MIG-")) return what + ", a MIG instance, and NVML does not say of which GPU";
    return what + ", which is neither a number nor a UUID";
  }

  /// The i-th of slurm_gpus().
  const Found& of_step(std::size_t i) const { return step_[i]; }

  Found in_pci_order(std::size_t number, const std::string& what) const {
    if (number < gpus_.size()) return gpus_[number];
    return fmt::format("{}, and {} {} seen here", what, gpus_.size(),
                       gpus_.size() == 1 ? "GPU is" : "GPUs are");
  }

 private:
  /// Of the step's GPUs the job sees the first in PCI order first, whatever the minor numbers say.
  std::vector<Found> step_gpus() const {
    std::vector<Found> found;
    for (const std::string& id : slurm_->ids) found.push_back(find(id, slurm_->variable));
    const auto known = [](const Found& one) { return std::holds_alternative<Gpu>(one); };
    if (by_minor_ && std::all_of(found.begin(), found.end(), known)) {
      std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
        return std::get<Gpu>(a).pci_address < std::get<Gpu>(b).pci_address;
      });
    }
    return found;
  }

  Found by_number(std::size_t number, const std::string& variable, const std::string& what) const {
    if (variable.starts_with("SLURM_"))
      return by_minor_ ? by_minor(number, what) : in_pci_order(number, what);
    if (by_speed_ && variable == "CUDA_VISIBLE_DEVICES") {
      return what +
             ", and CUDA numbers GPUs of several makes by their speed: set CUDA_DEVICE_ORDER=PCI_BUS_ID";
    }
    if (!slurm_) return in_pci_order(number, what);

    const auto& step = slurm_->ids;
    const bool of_node = std::find(step.begin(), step.end(), std::to_string(number)) != step.end();
    const bool of_step = number < step.size();
    if (of_node && of_step && !same(step_[number], in_pci_order(number, what))) {
      return fmt::format("{}, which may count the node's GPUs or those of {} (ConstrainDevices)", what,
                         slurm_->variable);
    }
    if (of_step) return step_[number];
    if (of_node) return in_pci_order(number, what);
    return fmt::format("{}, which is none of {}", what, slurm_->variable);
  }

  Found by_minor(std::size_t number, const std::string& what) const {
    const auto has = [&](const Gpu& gpu) { return static_cast<std::size_t>(*gpu.minor) == number; };
    const auto found = std::find_if(gpus_.begin(), gpus_.end(), has);
    if (found != gpus_.end()) return *found;
    return fmt::format("{}, and no GPU seen here is /dev/nvidia{}", what, number);
  }

  /// The same GPU, or neither is known.
  static bool same(const Found& a, const Found& b) {
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

  /// Any beginning that only one GPU has will do, as it does for CUDA.
  Found by_uuid(const std::string& uuid, const std::string& what) const {
    const auto has = [&](const Gpu& gpu) { return gpu.uuid.starts_with(uuid); };
    const auto first = std::find_if(gpus_.begin(), gpus_.end(), has);
    if (first == gpus_.end()) return what + ", which neither /proc/driver/nvidia/gpus nor NVML shows";
    if (std::count_if(gpus_.begin(), gpus_.end(), has) > 1) return what + ", which several GPUs begin with";
    return *first;
  }

  std::vector<Gpu> gpus_;
  std::optional<VisibleDevices> slurm_;
  std::vector<Found> step_;  // by place in the step, in PCI order
  bool by_minor_ = false;    // else nobody says, and Slurm's numbers are taken for PCI order
  bool by_speed_ = false;
};

/// One note for all ranks of which the same is to be said.
RankGpus with_notes(const std::vector<std::optional<Found>>& found) {
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
    result.notes.push_back(fmt::format("the GPU of rank{} {} is not known: {}", ranks.size() == 1 ? "" : "s",
                                       fmt::join(ranks, ","), reason));
  }
  return result;
}

}  // namespace

RankGpus rank_gpus(const Environment& environment, const Topology& topology, int ranks) {
  const Environment said = topology.is_this_machine ? environment : Environment();
  const Lookup lookup(said, topology);
  const auto visible = visible_devices(said);
  const auto slurm = slurm_gpus(said);
  const auto& list = visible ? visible : slurm;
  std::vector<std::optional<Found>> found(static_cast<std::size_t>(ranks));
  if (list ? list->ids.empty() : lookup.count() == 0) return with_notes(found);  // no GPU is in question

  const std::size_t count = list ? list->ids.size() : lookup.count();
  const auto own_rank = visible && count < found.size() ? local_rank(said) : std::nullopt;
  // What Slurm numbers anew may be the step's GPUs, or this task's.
  const bool own_numbers = own_rank && slurm && number_of(visible->ids.front());
  for (std::size_t rank = 0; rank < found.size(); ++rank) {
    if (own_rank && (own_numbers || static_cast<std::size_t>(own_rank->value) != rank)) {
      found[rank] = fmt::format("{} is of the task of rank {}; plan outside srun, or with --gpu-bind=none",
                                list->variable, own_rank->value);
    } else if (const std::size_t at = own_rank ? 0 : rank; at >= count) {
      found[rank] =
          fmt::format("{} {} GPU{} for {} ranks", list ? list->variable + " has" : "this machine has", count,
                      count == 1 ? "" : "s", ranks);
    } else {
      found[rank] = visible ? lookup.find(visible->ids[at], visible->variable)
                    : slurm ? lookup.of_step(at)
                            : lookup.in_pci_order(at, "");
    }
  }
  return with_notes(found);
}

RankGpus moved_gpus(const Environment& environment, const Topology& topology, const Plan& plan, int ranks) {
  std::vector<std::optional<Found>> found(static_cast<std::size_t>(ranks));
  const auto slurm = topology.is_this_machine ? slurm_gpus(environment) : std::nullopt;
  if (slurm && slurm->ids.size() >= found.size()) {
    const Lookup lookup(environment, topology);
    for (std::size_t rank = 0; rank < found.size(); ++rank) {
      found[rank] = lookup.of_step(rank);
    }
    return with_notes(found);
  }
  for (std::size_t rank = 0; rank < std::min(found.size(), plan.ranks.size()); ++rank) {
    const auto& planned = plan.ranks[rank].gpu;
    if (!planned) continue;
    const auto here = std::find_if(topology.gpus.begin(), topology.gpus.end(),
                                   [&](const Gpu& gpu) { return gpu.pci_address == planned->pci_address; });
    if (here != topology.gpus.end()) {
      found[rank] = *here;
    } else {
      found[rank] = fmt::format("the plan's {} is not here", planned->pci_address);
    }
  }
  return with_notes(found);
}

}  // namespace zf
