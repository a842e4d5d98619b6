// Fits a plan to the GPUs of this node, for exec and the SPANK plugin.
#include "launch/launch_parts.hpp"

#include <algorithm>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "gpus/moved_gpus.hpp"
#include "gpus/pci_gpus.hpp"
#include "launch/resolve_binding.hpp"
#include "machine/fingerprint.hpp"
#include "planning/node_facts.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

/// Reads the CPUs of each NUMA node, from files that every process of the node sees alike.
std::vector<NumaNode> read_nodes(const SysRoot& sysroot, const CpuSet& online) {
  const std::string folder = "/sys/devices/system/node";
  std::vector<NumaNode> nodes;
  for (const std::string& name : sysroot.list(folder)) {
    const auto number = name.starts_with("node") ? parse_number<int>(name.substr(4)) : std::nullopt;
    if (!number) continue;
    NumaNode& node = nodes.emplace_back();
    node.id = Node{*number};
    const std::string file = format_text("{}/{}/cpulist", folder, name);
    node.cpus = parse_cpu_list(sysroot.read(file).value_or(""), file) & online;
  }
  return nodes;
}

/// Reads as much of this machine as has_gpus_elsewhere() needs, because a whole topology takes longer than
/// all that exec does besides. A plan that does not know the places of all GPUs needs only its own.
Topology read_gpus_alone(const Plan& plan) {
  const SysRoot sysroot;
  Topology pci;
  const auto online = sysroot.read("/sys/devices/system/cpu/online");
  pci.cpus = online ? parse_cpu_list(*online, "online") : plan.machine.cpus;
  pci.nodes = read_nodes(sysroot, pci.cpus);
  std::vector<std::string> addresses;
  for (const Gpu& gpu : planned_gpus(plan, pci)) addresses.push_back(gpu.pci_address);
  pci.pci_gpus = read_pci_gpus(sysroot, pci, plan.gpus ? std::vector<std::string>() : addresses);
  return pci;
}

}  // namespace

MachineSource source_for_all_ranks() {
  MachineSource source;
  source.with_io = false;
  source.with_speeds = false;
  source.keep_isolated = true;
  return source;
}

PlanHere fitted_to_gpus_here(const Plan& plan, const std::string& path) {
  bool are_other = false;
  try {
    if (!has_gpus_elsewhere(plan, read_gpus_alone(plan))) return {plan};
    are_other = true;
    const Machine node = read_machine(source_for_all_ranks());
    if (!has_gpus_elsewhere(plan, node.topology)) return {plan};  // hwloc corrects some nodes' CPUs
    std::string why_not;
    PlanHere here{with_facts_of_node(plan, node, NodeGpus::looked_at, &why_not)};
    if (!why_not.empty()) here.notes.push_back(format_text("{}: {}", path, why_not));
    const auto same_home = [](const RankBinding& a, const RankBinding& b) { return a.home == b.home; };
    if (std::ranges::equal(plan.ranks, here.plan.ranks, same_home)) return here;
    const auto places = gpu_places_of(node.topology);
    here.notes.push_back(
        format_text("{}: this node has {}{}: the homes of the ranks are fitted to them", path,
                    places ? in_words(*places) : "other GPUs",
                    plan.gpus ? format_text(", the plan's node {}", in_words(*plan.gpus)) : std::string()));
    add_new_lines(here.notes, plan.allocation.notes, here.plan.allocation.notes);
    return here;
  } catch (const Error& error) {  // else what cannot be read is said where the plan meets the machine
    if (!are_other) return {plan};
    return {plan, {format_text("{}: the homes are not fitted to this node's GPUs: {}", path, error.what())}};
  }
}

}  // namespace zf
