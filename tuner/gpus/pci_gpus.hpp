// The GPUs of a node as PCI shows them, without a driver.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "os/sysroot.hpp"
#include "plan/plan.hpp"
#include "topology/topology.hpp"

namespace zf {

/// Returns the GPUs of /sys/bus/pci by their addresses; nothing if it shows no device at all. Reads files
/// that no driver writes and that every process of the node sees alike, so it neither hangs nor tells ranks
/// apart. A device is a GPU here if its vendor makes GPUs of its class (is_gpu_by_pci()). If `only` names
/// addresses, looks at no others: a node may have hundreds of devices.
std::optional<std::vector<Gpu>> read_pci_gpus(const SysRoot& sysroot, const Topology& topology,
                                              const std::vector<std::string>& only = {});

/// Returns the GPUs of Topology::pci_gpus with what the plan says of those at the same address: their minors.
/// Precondition: they are known.
std::vector<Gpu> pci_gpus_named_by(const Plan& plan, const Topology& topology);

/// Returns true if the homes of a plan's ranks are not those of GPUs here: a GPU of a rank is at no such
/// address, or near other CPUs; or the plan's node had no GPU, and this one has. False if it is not known.
bool has_other_gpus(const Plan& plan, const Topology& here);

}  // namespace zf
