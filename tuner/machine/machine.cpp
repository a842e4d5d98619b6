#include "machine/machine.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/clock.hpp"
#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "gpus/gpu_lists.hpp"
#include "gpus/live_gpus.hpp"
#include "gpus/pci_gpus.hpp"
#include "launchers/core_shortage.hpp"
#include "machine/core_speeds.hpp"
#include "os/shared_cpus.hpp"
#include "plan/process_binding.hpp"
#include "topology/topology_hwloc.hpp"

namespace zf {
namespace {

/// Returns the nodes that have memory. If no node has any, the sizes are unknown (a CPUID dump, a bare
/// synthetic machine), and it returns all nodes.
NodeSet nodes_with_memory(const Topology& topology) {
  NodeSet nodes;
  NodeSet with_memory;
  for (const NumaNode& node : topology.nodes) {
    nodes.insert(node.id);
    if (node.memory_bytes > 0) with_memory.insert(node.id);
  }
  return with_memory.empty() ? nodes : with_memory;
}

/// Reads the topology and the GPU drivers. All ask drivers, so they share one deadline; each but the first
/// gets at least a quarter of it. Of a capture (an XML file and its folder), only the bound drivers are read
/// in the folder.
Topology topology_and_driver(const MachineSource& source) {
  const Nanoseconds started_ns = now_ns();
  const SysRoot& sysroot = source.sysroot;
  Topology topology = read_topology({source.topology, sysroot, source.with_io, source.io_deadline});
  const auto left = [&] {
    const std::chrono::nanoseconds spent(now_ns() - started_ns);
    return std::max(source.io_deadline - std::chrono::duration_cast<std::chrono::milliseconds>(spent),
                    source.io_deadline / 4);
  };
  const auto note = [&](std::string missing) {
    if (!missing.empty()) topology.missing.push_back(std::move(missing));
  };
  const bool from_files = source.topology.empty();
  if (from_files || !sysroot.is_this_machine()) note(leave_out_by_driver(sysroot, topology, left()));
  if (!from_files) return topology;
  topology.pci_gpus = read_pci_gpus(sysroot, topology);
  if (source.with_io && topology.gpus.empty()) {
    topology.gpus = gpus_of_driver_alone(sysroot);
    if (const std::size_t gpus = topology.gpus.size(); gpus > 0) {
      topology.missing.push_back(format_text("the CPUs near {} are unknown: /sys/bus/pci shows no device",
                                             gpus == 1 ? "the GPU" : "the GPUs"));
    }
  }
  note(read_nvidia_driver(sysroot, topology.gpus, left()));
  note(read_amd_driver(sysroot, topology.gpus, left()));
  if (source.with_device_nodes) note(read_device_nodes(sysroot, topology.gpus, left()));
  return topology;
}

/// Returns what was allowed before zf-tune exec or bind() bound this process, or one above it, to this mask:
/// such a mask is no word of the user's about which CPUs are the job's own.
Allowed allowed_before_binding(Allowed allowed, const CpuSet& mask, const Environment& environment) {
  const auto line = environment.get(kBindingVariable);
  const auto before = environment.get(kAllowedVariable);
  if (!line || !before) return allowed;
  try {
    const RankBinding rank = parse_binding(*line).rank;
    if (mask != rank.home.cpus && mask != rank.training.cpus) return allowed;
    const CpuSet taken = parse_cpu_list(*before, kAllowedVariable) - mask;
    allowed.cpus |= taken;
    for (Exclusion& exclusion : allowed.exclusions) exclusion.cpus = exclusion.cpus - taken;
  } catch (const Error&) {  // of another version: the mask counts as the user's
  }
  return allowed;
}

}  // namespace

AllowedInputs allowed_inputs_of(const Topology& topology) {
  AllowedInputs inputs;
  inputs.present = topology.complete_cpus;
  inputs.online = topology.cpus;
  inputs.nodes = nodes_with_memory(topology);
  const std::string made_by = "as recorded in " + topology.source;
  if (topology.allowed_cpus != topology.cpus) inputs.cgroup.cpus = {topology.allowed_cpus, made_by};
  if (!topology.allowed_nodes.contains(inputs.nodes)) inputs.cgroup.mems = {topology.allowed_nodes, made_by};
  return inputs;
}

Machine read_machine(const MachineSource& source) {
  Machine machine;
  machine.topology = topology_and_driver(source);
  const Topology& topology = machine.topology;

  AllowedInputs inputs =
      source.topology.empty() ? read_allowed_inputs(source.sysroot) : allowed_inputs_of(topology);
  // A CPU may have gone offline between the two readings, and a plan can only use CPUs of a known core.
  inputs.present |= topology.complete_cpus;
  const CpuSet unknown = inputs.online - topology.cpus;
  inputs.online = inputs.online & topology.cpus;
  if (inputs.affinity) inputs.affinity = *inputs.affinity & topology.cpus;
  if (inputs.nodes.empty()) inputs.nodes = nodes_with_memory(topology);
  inputs.list = source.within ? source.within : source.allowed;
  if (source.within) inputs.list_option = "--within";
  inputs.mems_list = source.mems;
  machine.allowed = allowed_from(inputs);
  for (Exclusion& exclusion : machine.allowed.exclusions) {
    if (exclusion.reason != ExclusionReason::offline) continue;
    if (!source.topology.empty()) exclusion.detail = "offline, or not listed in " + topology.source;
    if (source.topology.empty() && unknown.intersects(exclusion.cpus))
      exclusion.detail = "offline, or without a core that /sys shows";
  }
  if (source.topology.empty()) machine.isolated = read_isolated_cpus(source.sysroot);
  if (source.topology.empty() && source.with_speeds)
    divide_kinds_by_speed(machine.topology, read_core_speeds(source.sysroot, topology),
                          speed_rules_of(source.sysroot));
  const Environment environment = topology.is_this_machine ? Environment::of_this_process() : Environment();
  machine.allowed.own_by_name = source.own_cpus || source.allowed;
  machine.allowed.shared_cpus =
      !machine.allowed.own_by_name &&
      neighbours_share(
          allowed_before_binding(machine.allowed, inputs.affinity.value_or(CpuSet()), environment),
          machine.isolated);
  machine.keeps_isolated = source.keep_isolated;
  if (!source.keep_isolated) leave_out_isolated(machine.allowed, machine.isolated);
  machine.allowed.more_cpus = how_to_get_cpus(environment, machine.allowed);
  return machine;
}

Machine read_machine_and_ask_nvml(const MachineSource& source, const Environment& environment) {
  Machine machine = read_machine(source);
  Topology& topology = machine.topology;
  if (!topology.is_this_machine) return machine;
  add_nvml_aliases(unresolved_uuids(environment, topology.gpus), topology.gpus);
  if (std::string missing = keep_container_gpus(environment, topology.gpus); !missing.empty())
    topology.missing.push_back(std::move(missing));
  return machine;
}

std::size_t allowed_cores(const Machine& machine) {
  const std::vector<Core>& cores = machine.topology.cores;
  return static_cast<std::size_t>(std::count_if(cores.begin(), cores.end(), [&](const Core& core) {
    return core.cpus.intersects(machine.allowed.cpus);
  }));
}

std::vector<std::string> missing_parts(const Machine& machine) {
  std::vector<std::string> parts = machine.topology.missing;
  for (const auto* more : {&machine.allowed.missing, &machine.isolated.missing})
    parts.insert(parts.end(), more->begin(), more->end());
  return parts;
}

}  // namespace zf
