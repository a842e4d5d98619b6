// What NVIDIA's driver tells about its GPUs.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "os/sysroot.hpp"
#include "topology/topology.hpp"

namespace zf {

/// Fills Gpu::uuid, Gpu::minor, Gpu::usable and, if the driver knows the model, Gpu::name from
/// /proc/driver/nvidia/gpus/ADDRESS/information.
/// Changes nothing if that folder is missing (no such driver). A GPU that the folder lacks is not usable:
/// NVIDIA's container runtime shows there only what it gave to the container, while /sys shows every device
/// of the host. NVML may know what the folder does not tell (nvml.hpp).
///
/// The driver itself writes these files, and a broken driver may never finish, so a child process reads them
/// (see output_of_child()). Returns an empty string on success. If the child does not answer within the
/// deadline, leaves `gpus` as it is and returns a sentence that says what is missing. Reads nothing if `gpus`
/// is empty.
std::string read_gpu_driver(const SysRoot& sysroot, std::vector<Gpu>& gpus,
                            std::chrono::milliseconds deadline);

}  // namespace zf
