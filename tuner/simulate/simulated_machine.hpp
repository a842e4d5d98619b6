// A simulated machine for --simulate. configs/machines/README.md specifies its file.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "topology/topology.hpp"

namespace zf {

/// Bandwidths in bytes per second, for Adam's mix of reads and writes; for STREAM's if `adam_share` is given.
struct SimulatedMemory {
  double core_bytes_per_s = 0;    ///< one thread of a core of speed 1, alone
  double l3_bytes_per_s = 0;      ///< all cores of an L3 group
  double node_bytes_per_s = 0;    ///< a NUMA node, from its own cores
  double remote_bytes_per_s = 0;  ///< a NUMA node, from cores of others
  double sharpness = 4;           ///< how sharply bandwidth saturates: the exponent of a p-norm
  double link_bytes_per_s = 0;    ///< `l3_per_link` L3 groups of one die together; 0: no such limit
  int l3_per_link = 1;
  double adam_share = 1;  ///< what Adam's step reaches of the bandwidth that it keeps busy
};

struct SimulatedNoise {
  double relative = 0;        ///< standard deviation of every time
  double outlier_rate = 0;    ///< share of the times that are outliers
  double outlier_factor = 1;  ///< how many times longer outliers are
  double visit = 0;           ///< standard deviation of each side's times between two visits
  double drift = 0;           ///< amplitude of a slow sine over all times
  Nanoseconds drift_period_ns = 60 * kSecondNs;
  bool is_common = false;  ///< `relative` and outliers slow both sides of a period alike; no file says so
};

struct SlowNode {
  Node node;
  double speed = 1;  ///< factor on its bandwidth
};

struct SimulatedMachine {
  std::string name;
  std::string
      compared;  ///< what its times were compared with, and how far off they were; empty: with nothing
  std::string workload;             ///< path of the machine's own workload file
  int ranks = 1;                    ///< used in place of the workload file's number
  Topology topology;                ///< never counts as this machine; GPUs in rank order
  std::vector<double> kind_speeds;  ///< speed of a core of each CPU kind; all 1 if empty
  SimulatedMemory memory;
  double smt_gain = 1;             ///< throughput of a core with all its PUs busy, over one PU
  double sync_ns_per_thread = 0;   ///< cost of one fork and join
  double launch_delay_ns = 0;      ///< of a kernel launch on a core of its own
  double launch_crowding = 0;      ///< how much that grows per thread too many on a core
  double launch_interference = 0;  ///< how much it grows when the node's bandwidth is all taken
  SimulatedNoise noise;
  std::optional<SlowNode> slow_node;

  /// Returns the speed of the core's kind; 1 if the file gives no kinds.
  double speed_of(const Core& core) const;
};

/// Reads a machine from a file. Paths in the file are relative to it. Throws Error(usage) that names the file
/// and the field.
SimulatedMachine load_simulated_machine(const std::filesystem::path& path);

}  // namespace zf
