#include "simulate/simulated_machine.hpp"

#include <algorithm>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "os/file.hpp"
#include "plan/json_fields.hpp"
#include "topology/topology_hwloc.hpp"

namespace zf {
namespace {

constexpr double kGiga = 1e9;

double number_between(const Field& field, double low, double high) {
  const double value = field.number();
  if (!(value >= low && value <= high))
    field.fail(format_text("is {}, but must be between {} and {}", value, low, high));
  return value;
}

double bandwidth(const Field& field) { return number_between(field, 1e-3, 1e6) * kGiga; }

SimulatedMemory read_memory(const Field& field) {
  field.object({"core_gb_per_s", "l3_gb_per_s", "node_gb_per_s", "remote_gb_per_s", "link_gb_per_s",
                "l3_per_link", "adam_share", "sharpness"},
               {"link_gb_per_s", "l3_per_link", "adam_share"});
  SimulatedMemory memory;
  memory.core_bytes_per_s = bandwidth(field["core_gb_per_s"]);
  memory.l3_bytes_per_s = bandwidth(field["l3_gb_per_s"]);
  memory.node_bytes_per_s = bandwidth(field["node_gb_per_s"]);
  memory.remote_bytes_per_s = bandwidth(field["remote_gb_per_s"]);
  memory.sharpness = number_between(field["sharpness"], 1, 100);
  if (field.has("link_gb_per_s")) {
    memory.link_bytes_per_s = bandwidth(field["link_gb_per_s"]);
    memory.l3_per_link = field["l3_per_link"].integer(1, 64);
  }
  if (field.has("adam_share")) memory.adam_share = number_between(field["adam_share"], 0.01, 1);
  return memory;
}

SimulatedNoise read_noise(const Field& field) {
  field.object({"relative", "outlier_rate", "outlier_factor", "visit", "drift", "drift_period_s"});
  SimulatedNoise noise;
  noise.visit = number_between(field["visit"], 0, 0.3);
  noise.relative = number_between(field["relative"], 0, 0.3);
  noise.outlier_rate = number_between(field["outlier_rate"], 0, 0.5);
  noise.outlier_factor = number_between(field["outlier_factor"], 1, 100);
  noise.drift = number_between(field["drift"], 0, 0.9);
  noise.drift_period_ns = static_cast<Nanoseconds>(number_between(field["drift_period_s"], 1e-3, 1e6) *
                                                   static_cast<double>(kSecondNs));
  return noise;
}

/// Reads the index of a node that the topology must have.
Node read_node(const Field& field, const Topology& topology) {
  const Node node{field.integer(0, kMaxOsIndex)};
  const auto known = std::any_of(topology.nodes.begin(), topology.nodes.end(),
                                 [&](const NumaNode& present) { return present.id == node; });
  if (!known) field.fail(format_text("is {}, but the topology has no such NUMA node", node.os_index));
  return node;
}

/// Adds a GPU near each listed node, in the order of the file. Their PCI addresses are invented.
void add_gpus(const Field& nodes, Topology& topology) {
  topology.gpus.clear();
  for (const Field& field : nodes.items()) {
    const Node id = read_node(field, topology);
    const auto node = std::find_if(topology.nodes.begin(), topology.nodes.end(),
                                   [&](const NumaNode& present) { return present.id == id; });
    topology.gpus.push_back(
        {format_text("0000:{:02x}:00.0", topology.gpus.size() + 1), "simulated", node->cpus, id});
  }
}

/// Reads the CPU kinds of the file, slowest first. A synthetic topology cannot describe them itself.
void read_kinds(const Field& field, SimulatedMachine& machine) {
  Topology& topology = machine.topology;
  topology.cpu_kinds.clear();
  CpuSet covered;
  for (const Field& kind : field.items()) {
    kind.object({"cpus", "speed", "name"});
    CpuKind made;
    made.cpus = kind["cpus"].cpus();
    made.efficiency_rank = static_cast<int>(topology.cpu_kinds.size());
    made.description = kind["name"].text();
    if (!topology.cpus.contains(made.cpus)) kind["cpus"].fail("names CPUs that the topology does not have");
    if (covered.intersects(made.cpus)) kind["cpus"].fail("names CPUs of an earlier kind");
    covered |= made.cpus;
    const double speed = number_between(kind["speed"], 0.01, 1);
    if (!machine.kind_speeds.empty() && speed < machine.kind_speeds.back())
      kind["speed"].fail("is below the speed of an earlier kind");
    machine.kind_speeds.push_back(speed);
    for (Core& core : topology.cores) {
      if (core.cpus.intersects(made.cpus)) core.kind = made.efficiency_rank;
    }
    topology.cpu_kinds.push_back(std::move(made));
  }
  if (!machine.kind_speeds.empty() && covered != topology.cpus) field.fail("does not cover every CPU");
}

/// Reads the topology from a synthetic description, or from an XML file beside the machine's file.
Topology read_topology_of(const Field& field, const std::filesystem::path& path) {
  const std::string text = field.text();
  try {
    return read_topology({text.ends_with(".xml") ? (path.parent_path() / text).string() : text, {}});
  } catch (const Error& error) {
    field.fail(format_text("is not a topology: {}", error.what()));
  }
}

}  // namespace

double SimulatedMachine::speed_of(const Core& core) const {
  return kind_speeds.empty() ? 1 : kind_speeds[static_cast<std::size_t>(core.kind)];
}

SimulatedMachine load_simulated_machine(const std::filesystem::path& path) {
  const std::string name = path.string();
  const JsonDocument document(read_text_file(path), name);
  const Field file =
      document.root()
          .schema("zf-machine/2")
          .object({"schema", "name", "source", "compared", "topology", "workload", "ranks", "gpu_nodes",
                   "kinds", "memory", "smt_gain", "sync_ns_per_thread", "launch", "noise", "slow_node"},
                  {"compared", "kinds", "slow_node"});
  for (const Field& line : file["source"].items()) line.text();

  SimulatedMachine machine;
  machine.name = file["name"].text();
  if (file.has("compared")) machine.compared = file["compared"].text();
  machine.workload = (path.parent_path() / file["workload"].text()).string();
  machine.topology = read_topology_of(file["topology"], path);
  machine.topology.source = name;
  machine.topology.cpu_model = machine.name;
  machine.ranks = file["ranks"].integer(1, 4096);
  add_gpus(file["gpu_nodes"], machine.topology);
  if (file.has("kinds")) read_kinds(file["kinds"], machine);
  if (machine.kind_speeds.empty()) {
    for (Core& core : machine.topology.cores) core.kind = 0;
  }
  machine.memory = read_memory(file["memory"]);
  machine.smt_gain = number_between(file["smt_gain"], 0.5, 4);
  machine.sync_ns_per_thread = number_between(file["sync_ns_per_thread"], 0, 1e6);
  const Field launch = file["launch"].object({"delay_ns", "crowding", "interference"});
  machine.launch_delay_ns = number_between(launch["delay_ns"], 0, 1e7);
  machine.launch_crowding = number_between(launch["crowding"], 0, 100);
  machine.launch_interference = number_between(launch["interference"], 0, 100);
  machine.noise = read_noise(file["noise"]);
  if (file.has("slow_node")) {
    const Field slow = file["slow_node"].object({"node", "speed"});
    machine.slow_node = {read_node(slow["node"], machine.topology), number_between(slow["speed"], 0.01, 1)};
  }
  return machine;
}

}  // namespace zf
