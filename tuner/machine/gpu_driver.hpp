// What NVIDIA's driver says of the GPUs, in /proc: their UUIDs and numbers, and which of them this container
// sees.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "machine/topology.hpp"
#include "os/sysroot.hpp"

namespace zf {

/// Fills Gpu::uuid, Gpu::minor and Gpu::usable from /proc/driver/nvidia/gpus/ADDRESS/information. Without
/// that folder (no such driver) nothing changes. A GPU that the folder lacks is not usable: NVIDIA's
/// container runtime shows there what it gave to the container, while /sys shows every device of the host.
/// What this folder cannot tell, nvml.hpp may. The driver itself writes these files, and a broken one may
/// never finish: they are read in a child, see output_of_child(). Without an answer by the deadline `gpus`
/// stays as it is, and what is missing comes back in words; else nothing. Nothing is read where `gpus` is
/// empty.
std::string read_gpu_driver(const SysRoot& sysroot, std::vector<Gpu>& gpus,
                            std::chrono::milliseconds deadline);

}  // namespace zf
