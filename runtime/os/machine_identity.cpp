#include "os/machine_identity.hpp"

#include <fstream>

#include "base/cpu_list.hpp"
#include "base/error.hpp"

namespace zf {
namespace {

/// Returns the model of the first CPU, from a line like "model name\t: AMD EPYC …".
std::string cpu_model(const SysRoot& sysroot) {
  std::ifstream cpuinfo(sysroot.path() / "proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line) && !line.empty();) {
    if (!line.starts_with("model name")) continue;
    const auto begin = line.find_first_not_of(" \t", line.find(':') + 1);
    return begin == std::string::npos ? std::string() : line.substr(begin);
  }
  return {};
}

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

MachineIdentity read_machine_identity(const SysRoot& sysroot) {
  MachineIdentity identity;
  identity.cpu_model = cpu_model(sysroot);
  identity.present = cpus_in(sysroot, "/sys/devices/system/cpu/present");
  identity.online = cpus_in(sysroot, "/sys/devices/system/cpu/online");
  identity.numa_nodes = nodes_with_cpus(sysroot);
  return identity;
}

}  // namespace zf
