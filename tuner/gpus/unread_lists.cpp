#include "gpus/unread_lists.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/trim.hpp"
#include "gpus/gpu_lookup.hpp"
#include "topology/pci_vendors.hpp"

namespace zf {
namespace {

struct ListOfVendor {
  int vendor_id;
  const char* variable;
};

constexpr std::array kLists{
    ListOfVendor{kIntel, "ZE_AFFINITY_MASK"},
    ListOfVendor{kHabana, "HABANA_VISIBLE_DEVICES"},
    ListOfVendor{kHuawei, "ASCEND_RT_VISIBLE_DEVICES"},
};

bool is_word(std::string_view text) {
  return text.empty() || text == "all" || text == "none" || text == "void";
}

bool is_one_device(const std::string& id) { return id.find_first_not_of("0123456789.") == std::string::npos; }

}  // namespace

std::optional<std::string> unread_list(const Environment& environment, int vendor_id) {
  for (const ListOfVendor& list : kLists) {
    if (list.vendor_id == vendor_id && !is_word(trim(environment.get(list.variable).value_or(""))))
      return list.variable;
  }
  return std::nullopt;
}

std::optional<VisibleDevices> countable_list(const Environment& environment, const Topology& topology) {
  const auto gpus = usable_gpus(topology);
  if (gpus.empty()) return std::nullopt;
  const int vendor = gpus.front().vendor_id;
  const auto variable = unread_list(environment, vendor);
  if (!variable ||
      !std::all_of(gpus.begin(), gpus.end(), [&](const Gpu& g) { return g.vendor_id == vendor; }))
    return std::nullopt;
  auto list = devices_in(environment, *variable);
  if (!list || list->ids.empty() || !std::all_of(list->ids.begin(), list->ids.end(), is_one_device))
    return std::nullopt;
  return list;
}

}  // namespace zf
