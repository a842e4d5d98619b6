// What a glance at /proc and /sys tells of the machine: enough to notice a plan that was made elsewhere.
#pragma once

#include <string>

#include "base/id_set.hpp"
#include "os/sysroot.hpp"

namespace zf {

struct MachineIdentity {
  std::string cpu_model;  ///< "AMD EPYC 9354 32-Core Processor"; empty: not known (not x86)
  CpuSet present;         ///< CPUs, offline ones too; empty: not known
};

/// Reads as little as it can: /proc/cpuinfo is long on a large machine.
MachineIdentity read_machine_identity(const SysRoot& sysroot);

}  // namespace zf
