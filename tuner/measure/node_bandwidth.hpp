// Measures the memory bandwidth of a whole, idle node: of each NUMA node from its own CPUs, and of all at
// once.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "machine/machine.hpp"

namespace zf {

/// In bytes per second.
struct NodeBandwidth {
  struct OfNode {
    Node node;
    double bytes_per_s = 0;
  };
  std::vector<OfNode> nodes;  ///< those with CPUs and memory
  double all = 0;
};

/// Returns how many CPUs' worth of time passed between two readings of /proc/stat that was not idle. Nothing
/// if one cannot be read, or no time passed. It counts what containers and virtual machines of others take,
/// too, which no list of processes shows. Pure.
std::optional<double> busy_cpus(std::string_view before, std::string_view after, std::size_t cpus);

/// Returns why this process cannot tell how fast the node is: it is another machine, not all of it is allowed
/// here, or others use more than one CPU and 5 % of it. Watches for a quarter of a second. Returns nothing if
/// it can tell. Read the machine with MachineSource::keep_isolated: they, too, are the node's.
std::optional<std::string> why_not_whole_and_idle(const Machine& machine);

/// Measures in a child process, which is killed at the deadline. One thread a core reads and writes as an
/// optimizer step does. Returns nothing if not all of it was done by then. Throws Error(runtime_error) if it
/// cannot be set up. Call it before threads are started.
std::optional<NodeBandwidth> measure_node_bandwidth(const Machine& machine,
                                                    std::chrono::milliseconds deadline);

}  // namespace zf
