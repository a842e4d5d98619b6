// What NVIDIA's driver says of the GPUs, in /proc: their UUIDs and numbers, and which of them this container
// sees.
#pragma once

#include <vector>

#include "os/sysroot.hpp"
#include "tuner/topology.hpp"

namespace zf {

/// Fills Gpu::uuid, Gpu::minor and Gpu::usable from /proc/driver/nvidia/gpus/ADDRESS/information. Without
/// that folder (no such driver) nothing changes. A GPU that the folder lacks is not usable: NVIDIA's
/// container runtime shows there what it gave to the container, while /sys shows every device of the host.
/// What this folder cannot tell, nvml.hpp may.
void read_gpu_driver(const SysRoot& sysroot, std::vector<Gpu>& gpus);

}  // namespace zf
