#include "gpus/driver_gpus.hpp"

#include "topology/pci_vendors.hpp"

namespace zf {
namespace {

/// Returns true for "0000:3b:00.0".
bool is_pci_address(const std::string& name) {
  return name.find_first_not_of("0123456789abcdef:.") == std::string::npos && name.find(':') == 4 &&
         name.find('.') == name.size() - 2;
}

}  // namespace

std::vector<Gpu> gpus_of_driver_alone(const SysRoot& sysroot) {
  std::vector<Gpu> gpus;
  if (!sysroot.list("/sys/bus/pci/devices").empty()) return gpus;
  for (const std::string& name : sysroot.list("/proc/driver/nvidia/gpus")) {
    if (!is_pci_address(name)) continue;
    Gpu& gpu = gpus.emplace_back();
    gpu.pci_address = name;
    gpu.name = "NVIDIA GPU";
    gpu.vendor_id = kNvidia;
  }
  return gpus;
}

}  // namespace zf
