// A machine that is a formula, for --simulate: what configs/machines/README.md specifies.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "machine/topology.hpp"

namespace zf {

/// Bandwidths are of Adam's mix of reads and writes, bytes per second.
struct SimulatedMemory {
  double core_bytes_per_s = 0;    ///< one thread of a core of speed 1, alone
  double l3_bytes_per_s = 0;      ///< all cores of an L3 group
  double node_bytes_per_s = 0;    ///< a NUMA node, from its own cores
  double remote_bytes_per_s = 0;  ///< a NUMA node, from cores of others
  double sharpness = 4;           ///< how suddenly a limit bites: the exponent of a p-norm
};

struct SimulatedNoise {
  double relative = 0;        ///< standard deviation of every time
  double outlier_rate = 0;    ///< part of the times that are outliers
  double outlier_factor = 1;  ///< how much longer these are
  double drift = 0;           ///< amplitude of a slow sine over all times
  Nanoseconds drift_period_ns = 60 * kSecondNs;
};

struct SlowNode {
  Node node;
  double speed = 1;  ///< of its bandwidth
};

struct SimulatedMachine {
  std::string name;
  std::string workload;             ///< path of the workload file that goes with it
  int ranks = 1;                    ///< on this machine, whatever the workload file says
  Topology topology;                ///< not this machine, even if it looks like it; its GPUs in rank order
  std::vector<double> kind_speeds;  ///< of a core of each CPU kind; empty: all 1
  SimulatedMemory memory;
  double smt_gain = 1;             ///< throughput of a core with all its PUs busy, over one PU
  double sync_ns_per_thread = 0;   ///< of one fork and join
  double launch_delay_ns = 0;      ///< of a kernel launch on a core of its own
  double launch_crowding = 0;      ///< how much that grows per thread too many on a core
  double launch_interference = 0;  ///< how much it grows when the node's bandwidth is all taken
  SimulatedNoise noise;
  std::optional<SlowNode> slow_node;

  double speed_of(const Core& core) const;
};

/// Throws Error(usage) that names the file and the field. Paths in the file are relative to it.
SimulatedMachine load_simulated_machine(const std::filesystem::path& path);

}  // namespace zf
