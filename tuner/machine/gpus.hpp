// Which PCI devices are GPUs that train, what they are called, and what NVIDIA's driver tells about them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "machine/topology.hpp"
#include "os/sysroot.hpp"

namespace zf {

/// The facts that PCI and the drivers tell about one device.
struct PciIdentity {
  struct OsDevice {
    std::string name;        ///< "cuda0", "renderD128"
    std::string model;       ///< "Tesla V100-SXM2-16GB"; empty: unknown
    bool runs_code = false;  ///< a co-processor (CUDA, OpenCL, …), not only a display
  };
  std::uint16_t class_id = 0;  ///< class and subclass: 0x0302
  std::uint16_t vendor_id = 0;
  std::uint16_t device_id = 0;
  std::uint8_t bus = 0;
  std::string name;  ///< from pci.ids, may be empty
  std::vector<OsDevice> os_devices;
};

/// Returns true for display and 3D controllers (class 0x03), processing accelerators (0x12), co-processors
/// (0x0b40) and every device that a compute driver claims. Returns false for the graphics of servers'
/// management chips, of virtual machines and of desktop CPUs. Pure.
bool is_compute_gpu(const PciIdentity& device);

/// Returns the number by which frameworks know the GPU: 3 for the OS device "cuda3", else for "rsmi3". Pure.
std::optional<int> framework_number(const PciIdentity& device);

/// Returns "Tesla V100-SXM2-16GB" if the driver tells the model, else the name in pci.ids, else "cuda0", else
/// "10de:20b0". Pure.
std::string gpu_name(const PciIdentity& device);

/// Fills Gpu::uuid, Gpu::minor and Gpu::usable from /proc/driver/nvidia/gpus/ADDRESS/information.
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
