// What drivers tell about the GPUs of this node.
//
// A driver writes the files that are read here by itself, and a broken one may never finish. So a child
// process reads them (see output_of_child()). Each function below that has a deadline returns an empty string
// on success. If the child does not answer in time, the function changes nothing and returns a sentence that
// says what is missing. None of them reads anything if there are no GPUs.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "os/sysroot.hpp"
#include "topology/topology.hpp"

namespace zf {

/// Moves each GPU with a driver that why_no_gpu_with() rules out from Topology::gpus to Topology::left_out.
/// The driver is that of /sys/bus/pci/devices/ADDRESS/uevent, which waits while a driver is being bound. A
/// folder without that file (an older capture) rules out nothing.
std::string leave_out_by_driver(const SysRoot& sysroot, Topology& topology,
                                std::chrono::milliseconds deadline);

/// Returns the GPUs of /proc/driver/nvidia/gpus where /sys shows no PCI device at all (gVisor and other
/// sandboxes), else none. Which CPUs are near them is unknown.
std::vector<Gpu> gpus_of_driver_alone(const SysRoot& sysroot);

/// Fills Gpu::uuid, Gpu::minor, Gpu::usable and, if the driver knows the model, Gpu::name from
/// /proc/driver/nvidia/gpus/ADDRESS/information. Changes nothing if that folder is missing (no such driver).
/// A GPU that the folder lacks is not usable: NVIDIA's container runtime shows there only what it gave to the
/// container, while /sys shows every device of the host. NVML may know what the folder does not tell
/// (nvml.hpp).
std::string read_nvidia_driver(const SysRoot& sysroot, std::vector<Gpu>& gpus,
                               std::chrono::milliseconds deadline);

/// Fills Gpu::uuid ("GPU-" and 16 hexadecimal digits, as ROCR_VISIBLE_DEVICES has it) and
/// Gpu::framework_number of AMD's GPUs from /sys/class/kfd/kfd/topology/nodes/N/properties: ROCm counts the
/// GPUs in the order of these nodes. If the node has no unique_id, that of /sys/bus/pci/devices/ADDRESS
/// counts. A GPU that is there in parts (several nodes of one PCI address) gets Gpu::parts, no number, and
/// the UUIDs of the first parts as Gpu::aliases.
///
/// AMD's GPUs without a readable node become unusable: the kernel hides GPUs that the job's cgroup does not
/// give to it, while PCI shows all of the node. Changes nothing if the folder is missing (no such driver) or
/// shows none of `gpus`.
std::string read_amd_driver(const SysRoot& sysroot, std::vector<Gpu>& gpus,
                            std::chrono::milliseconds deadline);

}  // namespace zf
