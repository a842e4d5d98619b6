// The keys of `zf-tune probe --format json`. Every CPU and node is an OS index; lists are written "0,4-11". A
// value that is unknown or absent is null.
//
//   schema                  "zf-probe/1"
//   machine                 source, this_machine (bool), fingerprint, gpus_fingerprint (of their places),
//   cpu_model,
//                           packages, numa_nodes (those with CPUs), cores, pus, cpus (online), offline
//   nodes[]                 node, memory_bytes, cpus ("" for HBM, CXL and the like), subtype
//   l3_groups[]             cpus, cache_bytes
//   cores[]                 cpus, package, node, l3 (index into l3_groups), kind (index into cpu_kinds)
//   cpu_kinds[]             cpus, make (as pool_kind in a plan counts), efficiency_rank, description,
//                           today (why its cores are slow or fast today)
//   gpus[]                  pci, name, uuid, usable (bool), why_unusable, node, local_cpus
//   left_out[]              what looks like a GPU and is none: pci, name, why
//   allowed                 cpus, mems, cpu_quota (CPUs' worth of time), cpu_quota_path, shared_cpus
//                           (bool: neighbours use them too), memory_bytes,
//                           memory_path, exclusions[]: reason (offline, cgroup_cpuset, affinity_mask,
//                           not_in_list, isolated, nohz_full), cpus, detail
//   ranks                   count, source, local_rank, local_rank_source, gpus[] (by rank: pci), gpu_notes[],
//                           more_gpus[][] (by rank: pci of its other GPUs; empty: no rank has any)
//   slurm                   variables by name
//   missing[]               what could not be read, one sentence each
#include <nlohmann/json.hpp>

#include "base/cpu_list.hpp"
#include "machine/fingerprint.hpp"
#include "machine/probe.hpp"
#include "plan/json_fields.hpp"

namespace zf {
namespace {

template <class T>
Object or_null(const std::optional<T>& value) {
  return value ? Object(*value) : Object();
}

Object or_null(const std::optional<Node>& node) { return node ? Object(node->os_index) : Object(); }

Object or_null(int index) { return index >= 0 ? Object(index) : Object(); }

Object or_null(const std::string& text) { return text.empty() ? Object() : Object(text); }

Object machine_json(const Topology& topology) {
  const MachineClass machine = machine_class_of(topology);
  const auto gpus = gpu_places_of(topology);
  return {{"source", topology.source},
          {"this_machine", topology.is_this_machine},
          {"fingerprint", machine.fingerprint},
          {"gpus_fingerprint", gpus ? Object(gpus->fingerprint) : Object()},
          {"cpu_model", or_null(topology.cpu_model)},
          {"packages", machine.packages},
          {"numa_nodes", machine.numa_nodes},
          {"cores", machine.cores},
          {"pus", machine.pus},
          {"cpus", print(topology.cpus)},
          {"offline", print(topology.complete_cpus - topology.cpus)}};
}

void add_topology(Object& json, const Topology& topology) {
  json["nodes"] = json["l3_groups"] = json["cores"] = json["cpu_kinds"] = json["gpus"] = Object::array();
  for (const auto& node : topology.nodes) {
    json["nodes"].push_back({{"node", node.id.os_index},
                             {"memory_bytes", node.memory_bytes},
                             {"cpus", print(node.cpus)},
                             {"subtype", or_null(node.subtype)}});
  }
  for (const auto& group : topology.l3_groups) {
    json["l3_groups"].push_back({{"cpus", print(group.cpus)}, {"cache_bytes", group.cache_bytes}});
  }
  for (const auto& core : topology.cores) {
    json["cores"].push_back({{"cpus", print(core.cpus)},
                             {"package", core.package},
                             {"node", or_null(core.node)},
                             {"l3", or_null(core.l3)},
                             {"kind", core.kind}});
  }
  for (const auto& kind : topology.cpu_kinds) {
    json["cpu_kinds"].push_back(
        {{"cpus", print(kind.cpus)},
         {"make", make_of(topology.cpu_kinds, static_cast<int>(json["cpu_kinds"].size()))},
         {"efficiency_rank", or_null(kind.efficiency_rank)},
         {"description", kind.description},
         {"today", or_null(kind.today)}});
  }
  for (const auto& gpu : topology.gpus) {
    json["gpus"].push_back({{"pci", gpu.pci_address},
                            {"name", gpu.name},
                            {"uuid", or_null(gpu.uuid)},
                            {"usable", gpu.usable},
                            {"why_unusable", or_null(gpu.why_unusable)},
                            {"node", or_null(gpu.node)},
                            {"local_cpus", print(gpu.local_cpus)}});
  }
  json["left_out"] = Object::array();
  for (const auto& device : topology.left_out) {
    json["left_out"].push_back({{"pci", device.pci_address}, {"name", device.name}, {"why", device.why}});
  }
}

Object allowed_json(const Allowed& allowed) {
  Object exclusions = Object::array();
  for (const auto& exclusion : allowed.exclusions) {
    exclusions.push_back({{"reason", name_of(exclusion.reason)},
                          {"cpus", print(exclusion.cpus)},
                          {"detail", exclusion.detail}});
  }
  return {{"cpus", print(allowed.cpus)},
          {"mems", print(allowed.mems)},
          {"cpu_quota", or_null(allowed.cpu_quota)},
          {"cpu_quota_path", or_null(allowed.cpu_quota_path)},
          {"shared_cpus", allowed.shared_cpus},
          {"memory_bytes", or_null(allowed.memory_bytes)},
          {"memory_path", or_null(allowed.memory_path)},
          {"exclusions", std::move(exclusions)}};
}

}  // namespace

std::string probe_json(const Probe& probe) {
  Object json = {{"schema", "zf-probe/1"}, {"machine", machine_json(probe.machine.topology)}};
  add_topology(json, probe.machine.topology);
  json["allowed"] = allowed_json(probe.machine.allowed);
  json["ranks"] = {{"count", probe.ranks.count},
                   {"source", probe.ranks.source},
                   {"local_rank", probe.local_rank ? Object(probe.local_rank->value) : Object()},
                   {"local_rank_source", probe.local_rank ? Object(probe.local_rank->variable) : Object()},
                   {"gpus", Object::array()},
                   {"gpu_notes", probe.gpus.notes}};
  for (const auto& gpu : probe.gpus.gpus) {
    json["ranks"]["gpus"].push_back(gpu ? Object(gpu->pci_address) : Object());
  }
  json["ranks"]["more_gpus"] = Object::array();
  for (const auto& gpus : probe.gpus.more) {
    Object addresses = Object::array();
    for (const Gpu& gpu : gpus) addresses.push_back(gpu.pci_address);
    json["ranks"]["more_gpus"].push_back(std::move(addresses));
  }
  json["slurm"] = Object::object();
  for (const auto& [name, value] : probe.slurm) json["slurm"][name] = value;
  json["missing"] = missing_parts(probe.machine);
  // Names from the kernel and from pci.ids may not be UTF-8.
  return print_json(json);
}

}  // namespace zf
