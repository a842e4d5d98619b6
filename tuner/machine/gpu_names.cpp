#include "machine/gpu_names.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>

namespace zf {
namespace {

constexpr std::uint16_t kVga = 0x0300;
constexpr std::uint16_t kIntel = 0x8086;

/// Vendors whose display controllers never compute.
constexpr std::array<std::uint16_t, 9> kDisplayOnly{
    0x102b,  // Matrox: iDRAC, iLO
    0x1a03,  // ASPEED: most other management chips
    0x1013,  // Cirrus, emulated
    0x1234,  // QEMU standard VGA
    0x1b36,  // QXL
    0x1af4,  // virtio-gpu
    0x15ad,  // VMware SVGA
    0x1414,  // Hyper-V
    0x80ee,  // VirtualBox
};

}  // namespace

bool is_compute_gpu(const PciIdentity& device) {
  const auto runs_code = [](const PciIdentity::OsDevice& os_device) { return os_device.runs_code; };
  if (std::any_of(device.os_devices.begin(), device.os_devices.end(), runs_code)) return true;

  const int base_class = device.class_id >> 8;
  if (base_class != 0x03 && base_class != 0x12 && device.class_id != 0x0b40) return false;
  if (std::find(kDisplayOnly.begin(), kDisplayOnly.end(), device.vendor_id) != kDisplayOnly.end())
    return false;
  // Intel's graphics inside a CPU sit on bus 0; its data centre GPUs behind a bridge.
  return !(device.vendor_id == kIntel && device.class_id == kVga && device.bus == 0);
}

std::string gpu_name(const PciIdentity& device) {
  for (const auto& os_device : device.os_devices) {
    if (!os_device.model.empty()) return os_device.model;
  }
  if (!device.name.empty()) return device.name;
  for (const auto& os_device : device.os_devices) {
    if (os_device.runs_code) return os_device.name;
  }
  return fmt::format("{:04x}:{:04x}", device.vendor_id, device.device_id);
}

}  // namespace zf
