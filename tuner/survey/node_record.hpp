// What one node says of itself: the file NODE.json, schema "zf-node/1".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "machine/machine.hpp"
#include "plan/gpu_places.hpp"
#include "plan/machine_class.hpp"

namespace zf {

/// A NUMA node with memory that does not come with a GPU's driver.
struct RecordedMemory {
  Node node;
  std::uint64_t memory_bytes = 0;
  std::optional<double> bytes_per_s =
      {};  ///< bandwidth from its own CPUs; absent: it has none, or not measured
  bool operator==(const RecordedMemory&) const = default;
};

struct NodeRecord {
  std::string name;
  std::string at;      ///< UTC time
  std::string by;      ///< "zf-tune 0.1.0"
  std::string kernel;  ///< its release; empty: not known
  MachineClass machine;
  CpuSet offline = {};
  std::optional<GpuPlaces> gpus = {};  ///< absent: PCI shows no device
  std::vector<RecordedMemory> numa;
  std::optional<double> bytes_per_s = {};  ///< bandwidth of all NUMA nodes at once; absent: not measured
  std::string not_measured = {};           ///< why; empty if it was measured
  bool operator==(const NodeRecord&) const = default;
};

/// Returns what a machine is, without its bandwidth. Pure.
NodeRecord record_of(const Topology& topology, std::string name);

/// Returns the text of the file. parse_record() reads it back.
std::string print_record(const NodeRecord& record);

/// Parses a file that is not trusted. `name` is the file's, for messages. Throws Error(usage) if it is no
/// whole zf-node/1, or if a field breaks its rule.
NodeRecord parse_record(std::string_view text, std::string_view name);

}  // namespace zf
