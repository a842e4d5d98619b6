// Which PCI devices are GPUs that train, and what to call them. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace zf {

/// What PCI and the drivers say of one device.
struct PciIdentity {
  struct OsDevice {
    std::string name;        ///< "cuda0", "renderD128"
    std::string model;       ///< "Tesla V100-SXM2-16GB"; empty: not known
    bool runs_code = false;  ///< a co-processor (CUDA, OpenCL, …), not just a display
  };
  std::uint16_t class_id = 0;  ///< class and subclass: 0x0302
  std::uint16_t vendor_id = 0;
  std::uint16_t device_id = 0;
  std::uint8_t bus = 0;
  std::string name;  ///< from pci.ids, may be empty
  std::vector<OsDevice> os_devices;
};

/// Display and 3D controllers (class 0x03), processing accelerators (0x12) and co-processors (0x0b40), and
/// whatever a compute driver calls its own; without the graphics of servers' management chips, of virtual
/// machines and of desktop CPUs.
bool is_compute_gpu(const PciIdentity& device);

/// "Tesla V100-SXM2-16GB" if the driver says so, else the name in pci.ids, else "cuda0", else "10de:20b0".
std::string gpu_name(const PciIdentity& device);

}  // namespace zf
