// Finds GPUs that only NVIDIA's driver shows: gVisor and other sandboxes have no /sys/bus/pci.
#pragma once

#include <string>
#include <vector>

#include "os/sysroot.hpp"
#include "topology/topology.hpp"

namespace zf {

/// Returns the GPUs of /proc/driver/nvidia/gpus where /sys shows no PCI device at all, else none. Which CPUs
/// are near them is unknown.
std::vector<Gpu> gpus_of_driver_alone(const SysRoot& sysroot);

}  // namespace zf
