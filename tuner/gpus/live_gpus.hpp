// What drivers, device nodes and NVIDIA's management library (NVML) tell about the GPUs of this node.
//
// A driver answers by itself, and a broken one may never finish. So a child process asks it (see
// output_of_child()). Each function below that has a deadline does nothing if there are no GPUs. Each that
// returns a text returns an empty one on success. If the child does not answer in time, it changes nothing,
// if it does not say otherwise, and returns a sentence that says what is missing.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "os/environment.hpp"
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
/// container, while /sys shows every device of the host. NVML may know what the folder does not tell.
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

/// A driver that is not loaded yet takes seconds to answer: up to about ten on a node of eight GPUs.
constexpr std::chrono::milliseconds kNvmlDeadline{15'000};
constexpr const char* kNvmlLibrary = "libnvidia-ml.so.1";

/// Returns the UUIDs that visible_devices() or container_gpus() names and that begin no Gpu::uuid: UUIDs of
/// MIG instances ("MIG-5c89852c-…"), and of GPUs if /proc/driver/nvidia is not shown.
std::vector<std::string> unresolved_uuids(const Environment& environment, const std::vector<Gpu>& gpus);

/// Adds each of `uuids` that NVML knows to Gpu::aliases of its GPU. The others stay unknown; without NVML all
/// do. Asks nothing if `uuids` is empty. Does not throw, whatever NVML does.
void add_nvml_aliases(const std::vector<std::string>& uuids, std::vector<Gpu>& gpus,
                      std::chrono::milliseconds deadline = kNvmlDeadline,
                      const std::string& library = kNvmlLibrary);

/// A device node that a job opens to compute on a GPU.
struct DeviceNode {
  std::string path;        ///< "/dev/nvidia0"
  bool must_exist = true;  ///< false: if it is missing, nothing is known
  bool operator==(const DeviceNode&) const = default;
};

/// Returns the nodes of a GPU. `render` is its render node ("renderD128"), "" if it has none. Pure.
/// - NVIDIA: /dev/nvidiaN, where N is its minor, if any /dev/nvidiaN exists. Without any, nothing is known:
///   WSL2 has none, and some are made at the first use of a GPU.
/// - AMD and Intel: /dev/dri/renderDN. AMD: also /dev/kfd, which need not exist.
std::vector<DeviceNode> device_nodes_of(const Gpu& gpu, const std::string& render, bool any_of_nvidia);

enum class NodeAccess { absent, refused, open };

/// Returns why a job cannot compute on a GPU with these nodes, as the end of a sentence: "/dev/nvidia0 is not
/// here", "/dev/kfd may not be opened here". Returns "" if nothing says so. Pure.
std::string why_unreachable(const std::vector<DeviceNode>& nodes,
                            const std::function<NodeAccess(const std::string& path)>& access);

/// Makes the GPUs unusable that why_unreachable() names: a container can show all of a node's GPUs and give
/// only some of them. On this machine the child opens each node; EPERM and EACCES count as refused. In a
/// folder, a plain file stands for a node, and without a folder dev/ nothing is known. If the child does not
/// answer, only missing nodes count.
std::string read_device_nodes(const SysRoot& sysroot, std::vector<Gpu>& gpus,
                              std::chrono::milliseconds deadline);

}  // namespace zf
