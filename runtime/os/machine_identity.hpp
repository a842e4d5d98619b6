// Identifies the machine by a few files of /proc and /sys: enough to notice a plan that was made elsewhere.
#pragma once

#include <string>

#include "base/id_set.hpp"
#include "os/sysroot.hpp"

namespace zf {

struct MachineIdentity {
  std::string cpu_model;  ///< "AMD EPYC 9354 32-Core Processor"; empty: not known, as on CPUs other than x86
  CpuSet present;         ///< all CPUs, including offline ones; empty: not known
  CpuSet online = {};     ///< empty: not known
  int numa_nodes = 0;     ///< those with a CPU that is online; 0: not known
};

/// Reads all of it. It reads only the beginning of /proc/cpuinfo, which is long on a large machine.
MachineIdentity read_machine_identity(const SysRoot& sysroot);

}  // namespace zf
