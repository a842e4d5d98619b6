// Shows hwloc every CPU that is online, where /sys shows it only some of them, or none with its core.
#pragma once

#include <map>
#include <string>

#include "base/id_set.hpp"
#include "base/signals_blocked.hpp"
#include "children/temporary_folder.hpp"
#include "os/online_cpus.hpp"
#include "os/sysroot.hpp"

namespace zf {

/// The CPUs that are online and that hwloc would not find.
struct HiddenCpus {
  CpuSet unlisted;            ///< not in the file `online`, or their folder is not listed (lxcfs)
  CpuSet without_topology;    ///< without a topology folder, so that their cores are not known (gVisor)
  std::map<Pu, Pu> siblings;  ///< without one too, but a CPU that has one names them as its siblings: by CPU
  bool any() const { return !unlisted.empty() || !without_topology.empty() || !siblings.empty(); }
};

/// Returns the CPUs that hwloc would not find in /sys/devices/system/cpu. A CPU that the file `online` alone
/// names, without a folder, is left out where the mask is known and lacks it.
HiddenCpus hidden_cpus(const SysRoot& sysroot, const OnlineCpus& online);

/// Returns a sentence on CPUs without a topology folder; empty if there are none. Pure.
std::string unknown_topology(const CpuSet& without_topology);

/// A temporary folder of links that takes the place of a machine's /proc and /sys. It differs from them in
/// /sys/devices/system/cpu alone: its file `online` lists all CPUs that are online, each of them has a
/// folder, and a CPU without a topology folder has that of its sibling there, or one that makes it a core of
/// its own, in the package with the CPUs that name it. This thread gets no signal meanwhile, so that the
/// folder goes.
class HwlocView {
 public:
  /// Throws Error(runtime_error) if no such folder can be made.
  HwlocView(const SysRoot& machine, const OnlineCpus& online, const HiddenCpus& hidden);
  /// Returns the folder as a machine.
  SysRoot sysroot() const { return SysRoot(folder_.path()); }

 private:
  SignalsBlocked signals_;
  TemporaryFolder folder_;
};

}  // namespace zf
