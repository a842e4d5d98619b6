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

}  // namespace

MachineIdentity read_machine_identity(const SysRoot& sysroot) {
  MachineIdentity identity;
  identity.cpu_model = cpu_model(sysroot);
  try {
    identity.present =
        parse_cpu_list(sysroot.read("/sys/devices/system/cpu/present").value_or(""), "present");
  } catch (const Error&) {
    // The list cannot be read, as in some containers: the CPUs are then not known.
  }
  return identity;
}

}  // namespace zf
