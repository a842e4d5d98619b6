// Reads from AMD's driver the UUIDs and the order by which ROCm knows its GPUs.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "os/sysroot.hpp"
#include "topology/topology.hpp"

namespace zf {

/// Fills Gpu::uuid ("GPU-" and 16 hexadecimal digits, as ROCR_VISIBLE_DEVICES has it) and
/// Gpu::framework_number of AMD's GPUs from /sys/class/kfd/kfd/topology/nodes/N/properties: ROCm counts the
/// GPUs in the order of these nodes. If the node has no unique_id, that of /sys/bus/pci/devices/ADDRESS
/// counts. A GPU that is there in parts (several nodes of one PCI address) gets Gpu::parts, no number, and
/// the UUIDs of the first parts as Gpu::aliases.
///
/// AMD's GPUs without a readable node become unusable: the kernel hides GPUs that the job's cgroup does not
/// give to it, while PCI shows all of the node. Changes nothing if the folder is missing (no such driver) or
/// shows none of `gpus`.
///
/// The driver itself writes these files, so a child process reads them, as read_gpu_driver() does. Returns an
/// empty string on success, else a sentence that says what is missing.
std::string read_amd_gpus(const SysRoot& sysroot, std::vector<Gpu>& gpus, std::chrono::milliseconds deadline);

}  // namespace zf
