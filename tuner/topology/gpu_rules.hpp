// Tells which PCI devices are GPUs that jobs can train on, says why others are not, and names them. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topology/topology.hpp"

namespace zf {

// The vendors of GPUs by their PCI numbers: Gpu::vendor_id.
constexpr int kNvidia = 0x10de;
constexpr int kAmd = 0x1002;
constexpr int kIntel = 0x8086;
constexpr int kHabana = 0x1da3;  ///< Gaudi
constexpr int kHuawei = 0x19e5;  ///< Ascend

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

/// Returns true for a device that CUDA, RSMI, OpenCL or Level Zero lists (Level Zero lists Intel's NPUs, too,
/// which do not count), and for the classes in which its vendor makes GPUs: display controllers (0x03) of
/// NVIDIA, of AMD, and of Intel behind a bridge; processing accelerators (0x12) of AMD, Habana and Huawei.
/// Graphics of AMD's desktop CPUs and of management chips do not count, nor does Huawei's compression engine.
bool is_compute_gpu(const PciIdentity& device);

/// Returns true for a class in which vendors make GPUs: display controllers and processing accelerators.
bool may_be_gpu(std::uint16_t class_id);

/// Returns whether is_compute_gpu() is true by PCI alone: by the class, the vendor and the device.
bool is_gpu_by_pci(const PciIdentity& device);

/// Returns a GPU with what PCI tells of it, near these CPUs of the topology.
Gpu gpu_of(const PciIdentity& device, const std::string& address, CpuSet near, const Topology& topology);

/// Returns why a co-processor (class 0x0b40) or processing accelerator (0x12) is no GPU, such as QAT, DLB,
/// NPUs and FPGAs: "vendor 8086 is not known to make GPUs of class 0b40". Returns "" for a GPU, and for a
/// device of another class, which is not taken for one.
std::string why_no_gpu(const PciIdentity& device);

/// Returns why no job can train on a device that has this driver ("vfio-pci": it is given to a virtual
/// machine; "dlb2": it is no GPU). Returns "" for every other driver: a driver's name makes no device a GPU.
std::string why_no_gpu_with(std::string_view driver);

/// Returns the number by which frameworks know the GPU: 3 for the OS device "cuda3", else for "rsmi3".
std::optional<int> framework_number(const PciIdentity& device);

/// Returns "Tesla V100-SXM2-16GB" if the driver tells the model, else the name in pci.ids, else "cuda0", else
/// "10de:20b0".
std::string gpu_name(const PciIdentity& device);

/// Returns the name in pci.ids, else "8086:4940".
std::string pci_name(const PciIdentity& device);

}  // namespace zf
