#include "gpus/container_gpus.hpp"

#include <algorithm>

#include "base/format.hpp"
#include "gpus/gpu_lookup.hpp"
#include "topology/pci_vendors.hpp"

namespace zf {
namespace {

constexpr const char* kVariable = "NVIDIA_VISIBLE_DEVICES";

bool is_uuid(const std::string& id) { return id.starts_with("GPU-") || id.starts_with("MIG-"); }

bool has_uuid(const Gpu& gpu, const std::string& id) {
  const auto uuid = uuid_in_name(id);
  return (uuid && begins_uuid(*uuid, gpu.uuid)) ||
         std::find(gpu.aliases.begin(), gpu.aliases.end(), id) != gpu.aliases.end();
}

}  // namespace

std::optional<VisibleDevices> container_gpus(const Environment& environment) {
  auto list = devices_in(environment, kVariable);
  if (!list || list->ids.empty() || !std::all_of(list->ids.begin(), list->ids.end(), is_uuid))
    return std::nullopt;
  return list;
}

std::string keep_container_gpus(const Environment& environment, std::vector<Gpu>& gpus) {
  const auto list = container_gpus(environment);
  if (!list || gpus.empty()) return {};
  for (const std::string& id : list->ids) {
    if (std::any_of(gpus.begin(), gpus.end(), [&](const Gpu& gpu) { return has_uuid(gpu, id); })) continue;
    return format_text("{} names \"{}\", which no GPU driver shows here: the list is not used", kVariable,
                       id);
  }
  for (Gpu& gpu : gpus) {
    const auto names = [&](const std::string& id) { return has_uuid(gpu, id); };
    if (!gpu.usable || gpu.vendor_id != kNvidia || std::any_of(list->ids.begin(), list->ids.end(), names))
      continue;
    gpu.usable = false;
    gpu.why_unusable = format_text("{} does not name it", kVariable);
  }
  return {};
}

}  // namespace zf
