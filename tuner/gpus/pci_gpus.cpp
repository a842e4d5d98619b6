#include "gpus/pci_gpus.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "text/units.hpp"
#include "topology/gpu_rules.hpp"

namespace zf {
namespace {

/// Returns the number in a file such as "0x10de"; 0 if there is none.
std::uint32_t hex_in(const SysRoot& sysroot, const std::string& file) {
  const std::string text = sysroot.read(file).value_or("");
  return text.starts_with("0x") ? parse_number<std::uint32_t>(text.substr(2), 16).value_or(0) : 0;
}

CpuSet cpus_near(const SysRoot& sysroot, const std::string& folder, const CpuSet& online) {
  const std::string file = folder + "/local_cpulist";
  try {
    return parse_cpu_list(sysroot.read(file).value_or(""), file) & online;
  } catch (const Error&) {  // a list that cannot be read says nothing
    return {};
  }
}

/// Returns the bus of "0000:3b:00.0"; 0 if the name has another form.
std::uint8_t bus_of(const std::string& address) {
  const auto colon = address.find(':');
  return colon == std::string::npos
             ? std::uint8_t{0}
             : parse_number<std::uint8_t>(address.substr(colon + 1, 2), 16).value_or(std::uint8_t{0});
}

bool is_where_planned(const RankGpu& planned, const Plan& plan, const Topology& here) {
  const Gpu* const gpu = gpu_at(*here.pci_gpus, planned.pci_address);
  if (gpu == nullptr) return false;
  if (planned.cpus.empty()) return !planned.node || planned.node == gpu->node;
  // CPUs that are offline on one side do not count.
  return (planned.cpus & here.cpus) == (gpu->local_cpus & plan.machine.cpus);
}

}  // namespace

std::optional<std::vector<Gpu>> read_pci_gpus(const SysRoot& sysroot, const Topology& topology,
                                              const std::vector<std::string>& only) {
  const std::vector<std::string> all = sysroot.list("/sys/bus/pci/devices");
  if (all.empty()) return std::nullopt;
  std::vector<Gpu> gpus;
  for (const std::string& address : only.empty() ? all : only) {
    const std::string folder = "/sys/bus/pci/devices/" + address;
    PciIdentity device;
    device.class_id = static_cast<std::uint16_t>(hex_in(sysroot, folder + "/class") >> 8);
    if (!may_be_gpu(device.class_id)) continue;
    device.vendor_id = static_cast<std::uint16_t>(hex_in(sysroot, folder + "/vendor"));
    device.device_id = static_cast<std::uint16_t>(hex_in(sysroot, folder + "/device"));
    device.bus = bus_of(address);
    if (!is_gpu_by_pci(device)) continue;
    gpus.push_back(gpu_of(device, address, cpus_near(sysroot, folder, topology.cpus), topology));
  }
  return gpus;
}

std::vector<Gpu> pci_gpus_named_by(const Plan& plan, const Topology& topology) {
  std::vector<Gpu> gpus = *topology.pci_gpus;
  for (const RankBinding& rank : plan.ranks) {
    for (const RankGpu& planned : gpus_of(rank)) {
      if (Gpu* const gpu = gpu_at(gpus, planned.pci_address)) gpu->minor = planned.minor;
    }
  }
  return gpus;
}

bool has_other_gpus(const Plan& plan, const Topology& here) {
  if (!here.pci_gpus) return false;
  const bool had_none = plan.gpus && plan.gpus->places.empty();
  bool has_any = false;
  for (const RankBinding& rank : plan.ranks) {
    for (const RankGpu& gpu : gpus_of(rank)) {
      has_any = true;
      if (!had_none && !is_where_planned(gpu, plan, here)) return true;
    }
  }
  return had_none && !has_any && !here.pci_gpus->empty();
}

}  // namespace zf
