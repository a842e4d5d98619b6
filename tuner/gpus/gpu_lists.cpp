#include "gpus/gpu_lists.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/format.hpp"
#include "base/trim.hpp"
#include "topology/gpu_rules.hpp"

namespace zf {
namespace {

constexpr const char* kOfContainer = "NVIDIA_VISIBLE_DEVICES";

struct ListOfVendor {
  int vendor_id;
  const char* variable;
};

constexpr std::array kUnreadLists{
    ListOfVendor{kIntel, "ZE_AFFINITY_MASK"},
    ListOfVendor{kHabana, "HABANA_VISIBLE_DEVICES"},
    ListOfVendor{kHuawei, "ASCEND_RT_VISIBLE_DEVICES"},
};

bool is_uuid(const std::string& id) { return id.starts_with("GPU-") || id.starts_with("MIG-"); }

bool is_word(std::string_view text) {
  return text.empty() || text == "all" || text == "none" || text == "void";
}

bool is_one_device(const std::string& id) { return id.find_first_not_of("0123456789.") == std::string::npos; }

bool has_uuid(const Gpu& gpu, const std::string& id) {
  const auto uuid = uuid_in_name(id);
  return (uuid && begins_uuid(*uuid, gpu.uuid)) || std::ranges::find(gpu.aliases, id) != gpu.aliases.end();
}

std::string lower_case(std::string text) {
  for (char& letter : text) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return text;
}

}  // namespace

Environment variables_for(const Environment& environment, const Topology& topology) {
  return topology.is_this_machine ? environment : Environment();
}

std::optional<VisibleDevices> slurm_gpus(const Environment& environment) {
  auto devices = devices_in(environment, "SLURM_STEP_GPUS");
  return devices ? devices : devices_in(environment, "SLURM_JOB_GPUS");
}

std::optional<VisibleDevices> container_gpus(const Environment& environment) {
  auto list = devices_in(environment, kOfContainer);
  if (!list || list->ids.empty() || !std::ranges::all_of(list->ids, is_uuid)) return std::nullopt;
  return list;
}

std::string keep_container_gpus(const Environment& environment, std::vector<Gpu>& gpus) {
  const auto list = container_gpus(environment);
  if (!list || gpus.empty()) return {};
  for (const std::string& id : list->ids) {
    if (std::ranges::any_of(gpus, [&](const Gpu& gpu) { return has_uuid(gpu, id); })) continue;
    return format_text("{} names \"{}\", which no GPU driver shows here: the list is not used", kOfContainer,
                       id);
  }
  for (Gpu& gpu : gpus) {
    const auto names = [&](const std::string& id) { return has_uuid(gpu, id); };
    if (!gpu.usable || gpu.vendor_id != kNvidia || std::ranges::any_of(list->ids, names)) continue;
    gpu.usable = false;
    gpu.why_unusable = format_text("{} does not name it", kOfContainer);
  }
  return {};
}

std::optional<std::string> unread_list(const Environment& environment, int vendor_id) {
  for (const ListOfVendor& list : kUnreadLists) {
    if (list.vendor_id == vendor_id && !is_word(trim(environment.get(list.variable).value_or(""))))
      return list.variable;
  }
  return std::nullopt;
}

std::optional<VisibleDevices> countable_list(const Environment& environment, const std::vector<Gpu>& usable) {
  if (usable.empty()) return std::nullopt;
  const int vendor = usable.front().vendor_id;
  const auto variable = unread_list(environment, vendor);
  if (!variable || !std::ranges::all_of(usable, [&](const Gpu& gpu) { return gpu.vendor_id == vendor; }))
    return std::nullopt;
  auto list = devices_in(environment, *variable);
  if (!list || list->ids.empty() || !std::ranges::all_of(list->ids, is_one_device)) return std::nullopt;
  return list;
}

std::optional<std::string> uuid_in_name(const std::string& id) {
  if (id.starts_with("GPU-")) return id;
  if (id.starts_with("MIG-GPU-")) return id.substr(4, id.find('/') - 4);
  return std::nullopt;
}

// ROCm's own pages write the digits in capitals.
bool begins_uuid(const std::string& start, const std::string& uuid) {
  return lower_case(uuid).starts_with(lower_case(start));
}

}  // namespace zf
