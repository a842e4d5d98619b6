// Gives hwloc the NUMA node of PCI devices with local_cpus that are all offline.
#pragma once

#include <string>

#include "base/id_set.hpp"
#include "os/sysroot.hpp"

namespace zf {

/// Where hwloc is told that PCI devices are, in the place of what /sys says.
struct PciLocality {
  std::string variable;  ///< the value of HWLOC_PCI_LOCALITY; empty: hwloc is told nothing
  std::string buses;     ///< "0000:3b, 0000:5e"
};

/// Returns the PCI buses with a device near CPUs that are all offline: hwloc 2.9 may crash on them. The
/// variable attaches these buses to all CPUs that are online. Precondition: some CPU is online.
PciLocality stray_buses(const SysRoot& sysroot, const CpuSet& online);

}  // namespace zf
