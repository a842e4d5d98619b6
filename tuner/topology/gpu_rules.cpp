#include "topology/gpu_rules.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/format.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

constexpr int kDisplay = 0x03;      // classes without their subclass
constexpr int kAccelerator = 0x12;  // "processing accelerators"
constexpr int kCoprocessor = 0x0b40;

/// AMD's display controllers that never compute. The rest of AMD's train, also those with a display.
constexpr std::array<std::uint16_t, 25> kAmdDisplayOnly{
    0x515e, 0x5969, 0x5159, 0x4752,  // management chips: ES1000, RN50, Rage XL
    0x15dd, 0x15d8, 0x1636, 0x164c,
    0x1638, 0x15e7, 0x163f,  // in CPUs: Raven to Van Gogh
    0x1681, 0x164e, 0x1506, 0x15bf,
    0x15c8, 0x1900, 0x1901,  // Rembrandt, Raphael to Hawk Point
    0x13c0, 0x150e, 0x1114, 0x98e4,
    0x9874, 0x1309, 0x130f,  // Granite Ridge, Strix, Krackan; Stoney to Kaveri
};

/// The ZIP engine of Kunpeng CPUs and its virtual functions (drivers/crypto/hisilicon/zip of Linux): they
/// have the class of the Ascends beside them.
constexpr std::array<std::uint16_t, 2> kHuaweiCompression{0xa250, 0xa251};

struct RulingDriver {
  std::string_view name;
  const char* why;
};

/// The drivers that no GPU of a job has.
constexpr std::array<RulingDriver, 6> kRulingDrivers{{
    {"vfio-pci", "its driver is vfio-pci, which gives it to a virtual machine"},
    {"4xxx", "its driver is 4xxx, of Intel's QAT"},
    {"4xxxvf", "its driver is 4xxxvf, of Intel's QAT"},
    {"c6xx", "its driver is c6xx, of Intel's QAT"},
    {"c6xxvf", "its driver is c6xxvf, of Intel's QAT"},
    {"dlb2", "its driver is dlb2, of Intel's load balancer"},
}};

template <class List>
bool contains(const List& list, std::uint16_t id) {
  return std::find(list.begin(), list.end(), id) != list.end();
}

int base_class(const PciIdentity& device) { return device.class_id >> 8; }

/// Returns true if a library that runs code on GPUs lists the device. Intel's accelerators of class 0x12 are
/// NPUs, which Level Zero lists as well.
bool is_listed_for_compute(const PciIdentity& device) {
  const bool is_npu = device.vendor_id == kIntel && base_class(device) == kAccelerator;
  return std::any_of(device.os_devices.begin(), device.os_devices.end(),
                     [&](const PciIdentity::OsDevice& os_device) {
                       const std::string_view name = os_device.name;
                       return name.starts_with("cuda") || name.starts_with("rsmi") ||
                              name.starts_with("opencl") || (name.starts_with("ze") && !is_npu);
                     });
}

}  // namespace

bool may_be_gpu(std::uint16_t class_id) { return class_id >> 8 == kDisplay || class_id >> 8 == kAccelerator; }

// Intel's graphics inside a CPU are on bus 0, and its data centre GPUs are behind a bridge.
bool is_gpu_by_pci(const PciIdentity& device) {
  const bool display = base_class(device) == kDisplay;
  const bool accelerator = base_class(device) == kAccelerator;
  switch (device.vendor_id) {
    case kNvidia:
      return display;
    case kAmd:
      return (display || accelerator) && !contains(kAmdDisplayOnly, device.device_id);
    case kIntel:
      return display && device.bus != 0;
    case kHabana:
      return accelerator;
    case kHuawei:
      return accelerator && !contains(kHuaweiCompression, device.device_id);
    default:
      return false;
  }
}

bool is_compute_gpu(const PciIdentity& device) {
  return is_listed_for_compute(device) || is_gpu_by_pci(device);
}

Gpu gpu_of(const PciIdentity& device, const std::string& address, CpuSet near, const Topology& topology) {
  Gpu gpu;
  gpu.pci_address = address;
  gpu.name = gpu_name(device);
  gpu.vendor_id = device.vendor_id;
  gpu.device_id = device.device_id;
  gpu.node = node_of(topology, near);
  gpu.local_cpus = std::move(near);
  return gpu;
}

std::string why_no_gpu(const PciIdentity& device) {
  if (is_compute_gpu(device)) return {};
  if (base_class(device) != kAccelerator && device.class_id != kCoprocessor) return {};
  if (device.vendor_id == kHuawei && contains(kHuaweiCompression, device.device_id))
    return "it is the compression engine of a Kunpeng CPU";
  return format_text("vendor {:04x} is not known to make GPUs of class {:04x}", device.vendor_id,
                     device.class_id);
}

std::string why_no_gpu_with(std::string_view driver) {
  const auto* const found = std::find_if(kRulingDrivers.begin(), kRulingDrivers.end(),
                                         [&](const RulingDriver& one) { return one.name == driver; });
  return found == kRulingDrivers.end() ? "" : found->why;
}

std::optional<int> framework_number(const PciIdentity& device) {
  for (const std::string_view driver : {"cuda", "rsmi"}) {
    for (const auto& os_device : device.os_devices) {
      if (!os_device.name.starts_with(driver)) continue;
      if (const auto number = parse_number<int>(os_device.name.substr(driver.size()))) return number;
    }
  }
  return std::nullopt;
}

std::string gpu_name(const PciIdentity& device) {
  for (const auto& os_device : device.os_devices) {
    if (!os_device.model.empty()) return os_device.model;
  }
  for (const auto& os_device : device.os_devices) {
    if (device.name.empty() && os_device.runs_code) return os_device.name;
  }
  return pci_name(device);
}

std::string pci_name(const PciIdentity& device) {
  return device.name.empty() ? format_text("{:04x}:{:04x}", device.vendor_id, device.device_id) : device.name;
}

}  // namespace zf
