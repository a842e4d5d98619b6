// The lists of visible devices whose numbers are not read: those of Intel, Habana and Huawei. Pure.
#pragma once

#include <optional>
#include <string>

#include "os/environment.hpp"
#include "topology/topology.hpp"

namespace zf {

/// Returns the variable that is set and selects among the GPUs of this vendor: ZE_AFFINITY_MASK (Intel),
/// HABANA_VISIBLE_DEVICES, or ASCEND_RT_VISIBLE_DEVICES (Huawei). Returns nothing for other vendors, and if
/// it is empty or a word for all or for none.
std::optional<std::string> unread_list(const Environment& environment, int vendor_id);

/// Returns that list, to be counted: if all usable GPUs are of the vendor, and if each of its entries is one
/// device ("3", or "0.1" for a tile). Otherwise returns nothing.
std::optional<VisibleDevices> countable_list(const Environment& environment, const Topology& topology);

}  // namespace zf
