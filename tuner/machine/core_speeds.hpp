// Finds the cores that are fast today among cores of one make: those that the firmware prefers, and those
// that have no limit. This is a fact of one chip at one moment, and no part of the machine's class.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "os/sysroot.hpp"
#include "topology/topology.hpp"

namespace zf {

/// The figures that the kernel has of one core; absent: it has none.
struct CoreSpeed {
  std::optional<double> base_khz = {};     ///< base_frequency: SST-BF gives some cores more than others
  std::optional<double> priority = {};     ///< highest_perf of ACPI CPPC: the cores that turbo prefers (ITMT)
  std::optional<double> limit_khz = {};    ///< scaling_max_freq: how fast the core may run at all
  std::optional<double> highest_khz = {};  ///< cpuinfo_max_freq: the same without a limit
  bool operator==(const CoreSpeed&) const = default;
};

/// How the figures of a machine are meant.
enum class SpeedRules {
  plain,  ///< each is a speed
  /// As AMD's firmware writes them and the kernel's driver amd-pstate reads them. highest_perf of 166 and
  /// more is an order of equal cores, for the scheduler alone; less is a speed. highest_khz is computed from
  /// it, so it may differ between equal cores, and limit_khz counts only where a user set it below
  /// highest_khz.
  amd,
};

/// Returns the rules for this machine, by the vendor in /proc/cpuinfo.
SpeedRules speed_rules_of(const SysRoot& sysroot);

/// Reads one entry for each core of the topology, in its order, from the core's first PU. A file that the
/// first core lacks is not looked for on the others.
std::vector<CoreSpeed> read_core_speeds(const SysRoot& sysroot, const Topology& topology);

/// Divides each CPU kind into its slow and its fast cores of today, slow ones first, and says why in
/// CpuKind::today. A core is slow if one of its figures is more than 10 % below the best of its kind. A kind
/// with cores that are alike stays whole, and a figure that not all cores of a kind have does not count.
/// Pure. Precondition: as many speeds as cores.
void divide_kinds_by_speed(Topology& topology, const std::vector<CoreSpeed>& speeds,
                           SpeedRules rules = SpeedRules::plain);

/// Returns true if that has divided a kind. Pure.
bool has_fast_cores_of_today(const Topology& topology);

}  // namespace zf
