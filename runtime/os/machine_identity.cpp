#include "os/machine_identity.hpp"

#include <fstream>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/trim.hpp"

namespace zf {
namespace {

/// Returns the CPUs of a list; none if it cannot be read, as in some containers.
CpuSet cpus_in(const SysRoot& sysroot, const char* path) {
  try {
    return parse_cpu_list(sysroot.read(path).value_or(""), path);
  } catch (const Error&) {
    return {};
  }
}

/// Returns the number of NUMA nodes that have CPUs; 0 if the kernel does not say.
int nodes_with_cpus(const SysRoot& sysroot) {
  constexpr const char* path = "/sys/devices/system/node/has_cpu";
  try {
    return static_cast<int>(parse_node_list(sysroot.read(path).value_or(""), path).size());
  } catch (const Error&) {
    return 0;
  }
}

}  // namespace

std::string cpuinfo_field(const SysRoot& sysroot, std::string_view name) {
  std::ifstream cpuinfo(sysroot.path() / "proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line) && !line.empty();) {
    const auto colon = line.find(':');
    if (colon == std::string::npos || trim(std::string_view(line).substr(0, colon)) != name) continue;
    return std::string(trim(std::string_view(line).substr(colon + 1)));
  }
  return {};
}

MachineIdentity read_machine_identity(const SysRoot& sysroot) {
  MachineIdentity identity;
  identity.cpu_model = cpuinfo_field(sysroot, "model name");
  identity.present = cpus_in(sysroot, "/sys/devices/system/cpu/present");
  identity.online = cpus_in(sysroot, "/sys/devices/system/cpu/online");
  identity.numa_nodes = nodes_with_cpus(sysroot);
  return identity;
}

}  // namespace zf
