#include "topology/pci_locality.hpp"

#include <set>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/format.hpp"

namespace zf {

PciLocality stray_buses(const SysRoot& sysroot, const CpuSet& online) {
  PciLocality locality;
  std::set<std::string> buses;
  for (const std::string& address : sysroot.list("/sys/bus/pci/devices")) {
    const auto list = sysroot.read(format_text("/sys/bus/pci/devices/{}/local_cpulist", address));
    try {
      const CpuSet near = parse_cpu_list(list.value_or(""), address);
      if (!near.empty() && !near.intersects(online)) buses.insert(address.substr(0, address.rfind(':')));
    } catch (const Error&) {  // a list that cannot be read says nothing
    }
  }
  for (const std::string& bus : buses) {
    locality.variable += format_text("{} {}\n", bus, print_mask(online));
    locality.buses += format_text("{}{}", locality.buses.empty() ? "" : ", ", bus);
  }
  return locality;
}

}  // namespace zf
