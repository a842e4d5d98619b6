// Finds the CPUs that are online, also where a file of /sys shows fewer of them: under lxcfs, or where /sys
// is mounted in part.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/id_set.hpp"
#include "os/sysroot.hpp"

namespace zf {

struct OnlineCpus {
  CpuSet cpus;     ///< those that are online
  CpuSet present;  ///< every CPU of the machine, also those that are offline
  CpuSet listed;   ///< those that /sys/devices/system/cpu/online lists
  /// The affinity mask of this thread; of another machine that of /proc/self/status, without CPUs that are
  /// offline. Absent: not known.
  std::optional<CpuSet> mask;
  std::string contradiction;         ///< how `online` contradicts the mask or other files; empty: it does not
  std::vector<std::string> missing;  ///< what could not be read, one sentence each
};

/// Reads which CPUs are online. These are the CPUs that `online` lists, those of this thread's affinity mask
/// (the kernel keeps no CPU in it that is offline), and those that have a topology folder (the kernel removes
/// it from a CPU that goes offline). If the mask has a CPU that `online` lacks, then `online` counts for
/// nothing, and every CPU is online unless its own file cpuN/online says 0. Throws Error(usage) with the path
/// if a file is no list.
OnlineCpus read_online_cpus(const SysRoot& sysroot);

}  // namespace zf
