// Identifies the machine by a few files of /proc and /sys: enough to notice a plan that was made elsewhere.
#pragma once

#include <string>
#include <string_view>

#include "base/id_set.hpp"
#include "os/sysroot.hpp"

namespace zf {

struct MachineIdentity {
  std::string cpu_model;  ///< "AMD EPYC 9354 32-Core Processor"; empty: not known, as on CPUs other than x86
  CpuSet present;         ///< all CPUs, including offline ones; empty: not known
  CpuSet online = {};     ///< empty: not known
  int numa_nodes = 0;     ///< those with a CPU that is online; 0: not known
};

/// Returns a field of the first CPU in /proc/cpuinfo, such as "model name" or "vendor_id"; empty if it has no
/// such field. Under lxcfs the first CPU there is not CPU 0.
std::string cpuinfo_field(const SysRoot& sysroot, std::string_view name);

/// Reads all of it. It reads only the beginning of /proc/cpuinfo, which is long on a large machine.
MachineIdentity read_machine_identity(const SysRoot& sysroot);

}  // namespace zf
