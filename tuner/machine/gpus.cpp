#include "machine/gpus.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <sstream>
#include <string_view>

#include "base/format.hpp"
#include "children/child_output.hpp"
#include "machine/amd_gpus.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

// --- PCI devices -------------------------------------------------------------------------------------------

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

// --- NVIDIA's driver ---------------------------------------------------------------------------------------

constexpr const char* kFolder = "/proc/driver/nvidia/gpus";
constexpr const char* kUnknown = "the UUIDs and device numbers of the GPUs are unknown";

/// Returns the word after a label such as "GPU UUID:" and its blanks; empty if there is no such line.
std::string value_in(const std::string& information, std::string_view label) {
  const auto found = information.find(label);
  if (found == std::string::npos) return {};
  const auto begin = information.find_first_not_of(" \t", found + label.size());
  if (begin == std::string::npos) return {};
  return information.substr(begin, information.find_first_of(" \t\n", begin) - begin);
}

/// Returns "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"; empty if it is unknown: before the GPU's first use the
/// driver writes question marks.
std::string uuid_in(const std::string& information) {
  const std::string uuid = value_in(information, "GPU UUID:");
  return uuid.find('?') == std::string::npos ? uuid : std::string();
}

std::optional<int> parse_minor(const std::string& text) {
  const auto minor = parse_number<int>(text);
  return minor && *minor >= 0 ? minor : std::nullopt;
}

/// Runs in the child. Returns "ADDRESS MINOR UUID" for each GPU of the folder, with "-" for what is unknown.
std::string driver_lines(const SysRoot& sysroot) {
  std::string lines;
  for (const std::string& address : sysroot.list(kFolder)) {
    const std::string information =
        sysroot.read(format_text("{}/{}/information", kFolder, address)).value_or("");
    const auto minor = parse_minor(value_in(information, "Device Minor:"));
    const std::string uuid = uuid_in(information);
    lines +=
        format_text("{} {} {}\n", address, minor ? std::to_string(*minor) : "-", uuid.empty() ? "-" : uuid);
  }
  return lines;
}

struct DriverEntry {
  std::optional<int> minor;
  std::string uuid;
};

/// Reads driver_lines() back, by PCI address.
std::map<std::string, DriverEntry> driver_entries(const std::string& lines) {
  std::map<std::string, DriverEntry> entries;
  std::istringstream words(lines);
  for (std::string address, minor, uuid; words >> address >> minor >> uuid;) {
    entries[address] = {parse_minor(minor), uuid == "-" ? "" : uuid};
  }
  return entries;
}

}  // namespace

bool is_compute_gpu(const PciIdentity& device) {
  const auto runs_code = [](const PciIdentity::OsDevice& os_device) { return os_device.runs_code; };
  if (std::any_of(device.os_devices.begin(), device.os_devices.end(), runs_code)) return true;

  const int base_class = device.class_id >> 8;
  if (base_class != 0x03 && base_class != 0x12 && device.class_id != 0x0b40) return false;
  if (std::find(kDisplayOnly.begin(), kDisplayOnly.end(), device.vendor_id) != kDisplayOnly.end())
    return false;
  if (device.vendor_id == kAmd &&
      std::find(kAmdDisplayOnly.begin(), kAmdDisplayOnly.end(), device.device_id) != kAmdDisplayOnly.end())
    return false;
  // Intel's graphics inside a CPU are on bus 0; Intel's data centre GPUs are behind a bridge.
  return !(device.vendor_id == kIntel && device.class_id == kVga && device.bus == 0);
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
  if (!device.name.empty()) return device.name;
  for (const auto& os_device : device.os_devices) {
    if (os_device.runs_code) return os_device.name;
  }
  return format_text("{:04x}:{:04x}", device.vendor_id, device.device_id);
}

std::string read_gpu_driver(const SysRoot& sysroot, std::vector<Gpu>& gpus,
                            std::chrono::milliseconds deadline) {
  if (gpus.empty()) return {};
  const auto output = output_of_child([&] { return driver_lines(sysroot); }, deadline);
  if (output.end == ChildOutput::End::late) {
    return format_text("the GPU driver did not answer within {} ms (it may hang): {}", deadline.count(),
                       kUnknown);
  }
  if (output.end == ChildOutput::End::died) return format_text("reading the GPU driver failed: {}", kUnknown);
  const auto entries = driver_entries(output.text);
  if (entries.empty()) return {};
  for (Gpu& gpu : gpus) {
    const auto found = entries.find(gpu.pci_address);
    gpu.usable = found != entries.end();
    gpu.minor = gpu.usable ? found->second.minor : std::nullopt;
    gpu.uuid = gpu.usable ? found->second.uuid : std::string();
  }
  return {};
}

}  // namespace zf
