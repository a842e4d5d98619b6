#include "gpus/gpu_lookup.hpp"

#include <algorithm>
#include <iterator>

#include "base/format.hpp"
#include "gpus/gpu_lists.hpp"
#include "text/units.hpp"
#include "topology/gpu_rules.hpp"

namespace zf {

std::vector<Gpu> usable_gpus(const Topology& topology) {
  std::vector<Gpu> usable;
  std::ranges::copy_if(topology.gpus, std::back_inserter(usable), &Gpu::usable);
  int number = 0;
  for (Gpu& gpu : usable) {
    if (gpu.vendor_id == kNvidia) gpu.cuda_number = number++;
  }
  return usable;
}

GpuRuntime runtime_of(const Topology& topology) {
  const auto is_amd = [](const Gpu& gpu) { return gpu.vendor_id == kAmd; };
  const bool all_amd = !topology.gpus.empty() && std::ranges::all_of(topology.gpus, is_amd);
  return all_amd ? GpuRuntime::hip : GpuRuntime::cuda;
}

bool are_same(const FoundGpu& a, const FoundGpu& b) {
  const Gpu* const one = gpu_in(a);
  const Gpu* const other = gpu_in(b);
  return one != nullptr && other != nullptr ? one->pci_address == other->pci_address : one == other;
}

GpuLookup::GpuLookup(const Environment& variables, const Topology& topology, GpuShare share)
    : gpus_(usable_gpus(topology)),
      visible_(visible_devices(variables, runtime_of(topology))),
      slurm_(slurm_gpus(variables)) {
  by_minor_ = !gpus_.empty() && std::ranges::all_of(gpus_, [](const Gpu& g) { return g.minor.has_value(); });
  const bool alike = std::ranges::all_of(gpus_, [&](const Gpu& g) { return g.name == gpus_[0].name; });
  by_speed_ = !alike && !all_numbered() && variables.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID";
  if (slurm_) step_ = step_gpus();
  if (share.ranks_per_gpu == 0) return;
  const int parts = gpus_.empty() ? 1 : gpus_.front().parts;
  const bool divided_alike = std::ranges::all_of(gpus_, [&](const Gpu& gpu) { return gpu.parts == parts; });
  if (divided_alike && share.ranks_per_gpu % parts == 0 && (parts == 1 || all_numbered()))
    parts_ = static_cast<std::size_t>(parts);
  const bool of_mig = visible_ && !visible_->ids.empty() && visible_->ids.front().starts_with("MIG-");
  if (!of_mig)  // such an entry is a part of a GPU
    ranks_on_one_ = static_cast<std::size_t>(share.ranks_per_gpu) / parts_;
}

bool GpuLookup::is_doubtful_of_task() const {
  return visible_ && slurm_ && parse_number<std::size_t>(visible_->ids.front());
}

FoundGpu GpuLookup::at(std::size_t i) const {
  if (visible_) return find(visible_->ids[i], visible_->variable);
  return slurm_ ? of_step(i) : in_framework_order(i);
}

std::string GpuLookup::too_few(std::size_t ranks, GpuShare share) const {
  if (const auto divided = divided_gpu(); divided && list() == nullptr) return *divided;
  std::string text =
      format_text("{} {} for {}", list() != nullptr ? list()->variable + " lists" : "this machine has",
                  print_count(count(), "GPU"), print_count(ranks, "rank"));
  if (!share.is_given() && ranks % count() == 0)
    text += format_text("; --ranks-per-gpu {0} gives each GPU to {0} ranks", ranks / count());
  return text;
}

FoundGpu GpuLookup::find(const std::string& id, const std::string& variable) const {
  const std::string what = format_text("{} names \"{}\"", variable, id);
  if (const auto number = parse_number<std::size_t>(id)) return by_number(*number, variable, what);
  for (const Gpu& gpu : gpus_) {
    if (std::ranges::find(gpu.aliases, id) != gpu.aliases.end()) return gpu;
  }
  if (const auto uuid = uuid_in_name(id)) return by_uuid(*uuid, what);
  if (id.starts_with("MIG-"))
    return what + ", a MIG instance, and NVML does not tell which GPU it belongs to";
  return what + ", which is neither a number nor a UUID";
}

FoundGpu GpuLookup::in_framework_order(std::size_t i) const {
  if (const auto divided = divided_gpu()) return *divided;
  std::vector<Gpu> gpus = gpus_;
  if (all_numbered()) std::ranges::stable_sort(gpus, {}, &Gpu::framework_number);
  return gpus[i / parts_];
}

FoundGpu GpuLookup::in_pci_order(std::size_t number, const std::string& what) const {
  if (number < gpus_.size()) return gpus_[number];
  return format_text("{}, but {} {} visible here", what, print_count(gpus_.size(), "GPU"),
                     gpus_.size() == 1 ? "is" : "are");
}

bool GpuLookup::all_numbered() const {
  return std::ranges::all_of(gpus_, [](const Gpu& g) { return g.framework_number.has_value(); });
}

std::optional<std::string> GpuLookup::divided_gpu() const {
  for (const Gpu& gpu : gpus_) {
    if (gpu.parts == 1 || parts_ > 1) continue;
    return format_text(
        "GPU {} is divided into {} parts: ROCm's numbers count its parts; --ranks-per-gpu {} gives a rank to "
        "each",
        gpu.pci_address, gpu.parts, gpu.parts);
  }
  return {};
}

std::vector<FoundGpu> GpuLookup::step_gpus() const {
  std::vector<FoundGpu> found;
  for (const std::string& id : slurm_->ids) found.push_back(find(id, slurm_->variable));
  const auto address = [](const FoundGpu& one) { return gpu_in(one)->pci_address; };
  if (by_minor_ && std::ranges::all_of(found, gpu_in)) std::ranges::sort(found, {}, address);
  return found;
}

FoundGpu GpuLookup::by_number(std::size_t number, const std::string& variable,
                              const std::string& what) const {
  if (const auto divided = divided_gpu()) return format_text("{}, but {}", what, *divided);
  if (variable.starts_with("SLURM_")) return by_minor_ ? by_minor(number, what) : in_one_order(number, what);
  if (by_speed_ && variable == "CUDA_VISIBLE_DEVICES") {
    return what +
           ", and CUDA numbers GPUs of different models by their speed: set CUDA_DEVICE_ORDER=PCI_BUS_ID";
  }
  if (!slurm_) return in_driver_order(number, what);

  const auto& step = slurm_->ids;
  const bool of_node = std::ranges::find(step, std::to_string(number)) != step.end();
  const bool of_step = number < step.size();
  if (of_node && of_step && !are_same(step_[number], in_driver_order(number, what))) {
    return format_text(
        "{}, which may count the node's GPUs or those of {}: that depends on Slurm's ConstrainDevices", what,
        slurm_->variable);
  }
  if (of_step) return step_[number];
  if (of_node) return in_driver_order(number, what);
  return format_text("{}, which is not among {}", what, slurm_->variable);
}

FoundGpu GpuLookup::in_driver_order(std::size_t number, const std::string& what) const {
  return number < usable() ? in_framework_order(number) : in_pci_order(number, what);
}

FoundGpu GpuLookup::in_one_order(std::size_t number, const std::string& what) const {
  FoundGpu found = in_pci_order(number, what);
  if (number >= gpus_.size() || are_same(found, in_driver_order(number, what))) return found;
  return format_text("{}, which may count in ROCm's order or in that of PCI, and these differ here", what);
}

FoundGpu GpuLookup::by_minor(std::size_t number, const std::string& what) const {
  const auto has = [&](const Gpu& gpu) { return static_cast<std::size_t>(*gpu.minor) == number; };
  const auto found = std::ranges::find_if(gpus_, has);
  if (found != gpus_.end()) return *found;
  return format_text("{}, but no GPU visible here is /dev/nvidia{}", what, number);
}

FoundGpu GpuLookup::by_uuid(const std::string& uuid, const std::string& what) const {
  const auto has = [&](const Gpu& gpu) { return begins_uuid(uuid, gpu.uuid); };
  const auto first = std::ranges::find_if(gpus_, has);
  if (first == gpus_.end())
    return what + ", which no GPU driver shows here (/proc/driver/nvidia/gpus, NVML, /sys/class/kfd)";
  if (std::ranges::count_if(gpus_, has) > 1) return what + ", and the UUIDs of several GPUs begin with it";
  return *first;
}

}  // namespace zf
