// Shows hwloc every CPU that is online, where /sys shows it only some of them, or none with its core.
#pragma once

#include <string>

#include "base/id_set.hpp"
#include "children/temporary_folder.hpp"
#include "os/online_cpus.hpp"
#include "os/sysroot.hpp"

namespace zf {

/// The CPUs that are online and that hwloc would not find.
struct HiddenCpus {
  CpuSet unlisted;          ///< not in the file `online`, or their folder is not listed (lxcfs)
  CpuSet without_topology;  ///< without a topology folder, so that their cores are not known (gVisor)
  bool any() const { return !unlisted.empty() || !without_topology.empty(); }
};

/// Returns the CPUs that hwloc would not find in /sys/devices/system/cpu. A CPU that the file `online` alone
/// names, without a folder, is left out where the mask is known and lacks it.
HiddenCpus hidden_cpus(const SysRoot& sysroot, const OnlineCpus& online);

/// Returns a sentence on CPUs without a topology folder; empty if there are none. Pure.
std::string unknown_topology(const CpuSet& without_topology);

/// A temporary folder of links that takes the place of a machine's /proc and /sys. It differs from them in
/// /sys/devices/system/cpu alone: its file `online` lists all CPUs that are online, each of them has a
/// folder, and a CPU without a topology folder has one there that makes it a core of its own.
class HwlocView {
 public:
  /// Throws Error(runtime_error) if no such folder can be made.
  HwlocView(const SysRoot& machine, const OnlineCpus& online, const HiddenCpus& hidden);
  /// Returns the folder as a machine.
  SysRoot sysroot() const { return SysRoot(folder_.path()); }

 private:
  TemporaryFolder folder_;
};

/// Where hwloc is told that PCI devices are, in the place of what /sys says.
struct PciLocality {
  std::string variable;  ///< the value of HWLOC_PCI_LOCALITY; empty: hwloc is told nothing
  std::string buses;     ///< "0000:3b, 0000:5e"
};

/// Returns the PCI buses with a device near CPUs of which none is online: hwloc 2.9 may crash on them. They
/// are attached to all CPUs that are online. Precondition: some CPU is online.
PciLocality stray_buses(const SysRoot& sysroot, const CpuSet& online);

}  // namespace zf
