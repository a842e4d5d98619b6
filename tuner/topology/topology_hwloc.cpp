#include "topology/topology_hwloc.hpp"

#include <hwloc.h>

#include <algorithm>
#include <utility>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "os/machine_identity.hpp"
#include "topology/gpu_rules.hpp"
#include "topology/hwloc_kinds.hpp"
#include "topology/hwloc_sets.hpp"
#include "topology/hwloc_source.hpp"

namespace zf {
namespace {

CpuSet cpuset_of(hwloc_obj_t object) { return ids_of<Pu>(object->cpuset); }

std::string info_of(hwloc_obj_t object, const char* name) {
  const char* text = object == nullptr ? nullptr : hwloc_obj_get_info_by_name(object, name);
  return text == nullptr ? std::string() : std::string(text);
}

std::vector<hwloc_obj_t> objects_of(hwloc_topology_t hwloc, hwloc_obj_type_t type) {
  std::vector<hwloc_obj_t> objects;
  for (hwloc_obj_t object = nullptr; (object = hwloc_get_next_obj_by_type(hwloc, type, object)) != nullptr;) {
    objects.push_back(object);
  }
  return objects;
}

void read_nodes(hwloc_topology_t hwloc, Topology& topology, std::vector<NodeLocality>& localities) {
  for (const hwloc_obj_t object : objects_of(hwloc, HWLOC_OBJ_NUMANODE)) {
    const std::string subtype = object->subtype == nullptr ? "" : object->subtype;
    const Node id{static_cast<int>(object->os_index)};
    const CpuSet local = cpuset_of(object) & topology.cpus;
    topology.nodes.push_back(
        {id, object->attr->numanode.local_memory, {}, subtype == "DRAM" ? "" : subtype, local});
    localities.push_back({id, local, subtype});
  }
}

/// Adds one Core for each of hwloc's; one for each PU if hwloc knows no cores (a bare "numa:2 pu:4").
void read_cores(hwloc_topology_t hwloc, Topology& topology, const std::vector<NodeLocality>& localities) {
  for (const hwloc_obj_t cache : objects_of(hwloc, HWLOC_OBJ_L3CACHE)) {
    topology.l3_groups.push_back({cpuset_of(cache), cache->attr->cache.size});
  }
  const bool has_cores = hwloc_get_nbobjs_by_type(hwloc, HWLOC_OBJ_CORE) > 0;
  for (const hwloc_obj_t object : objects_of(hwloc, has_cores ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU)) {
    Core core;
    core.cpus = cpuset_of(object);
    if (core.cpus.empty()) continue;
    if (const hwloc_obj_t package = hwloc_get_ancestor_obj_by_type(hwloc, HWLOC_OBJ_PACKAGE, object)) {
      const bool numbered = package->os_index != HWLOC_UNKNOWN_INDEX;
      core.package = static_cast<int>(numbered ? package->os_index : package->logical_index);
    }
    if (const hwloc_obj_t cache = hwloc_get_ancestor_obj_by_type(hwloc, HWLOC_OBJ_L3CACHE, object)) {
      core.l3 = static_cast<int>(cache->logical_index);
    }
    if (const int owner = owner_of(core.cpus, localities); owner >= 0) {
      NumaNode& node = topology.nodes[static_cast<std::size_t>(owner)];
      node.cpus |= core.cpus;
      core.node = node.id;
    }
    for (std::size_t kind = 0; kind < topology.cpu_kinds.size(); ++kind) {
      if (topology.cpu_kinds[kind].cpus.contains(core.cpus)) core.kind = static_cast<int>(kind);
    }
    topology.cores.push_back(std::move(core));
  }
}

/// Returns true if hwloc has not put a node where its own file says. hwloc then takes the node for one of the
/// whole machine.
bool contradicts(const SysRoot& sysroot, const NumaNode& node, const CpuSet& online) {
  const std::string file = format_text("/sys/devices/system/node/node{}/cpulist", node.id.os_index);
  const auto list = sysroot.read(file);
  try {
    const CpuSet listed = list ? parse_cpu_list(*list, file) & online : CpuSet();
    return !listed.empty() && listed != node.local_cpus;
  } catch (const Error&) {  // a list that cannot be read says nothing
    return false;
  }
}

bool nodes_contradict(const SysRoot& sysroot, const Topology& topology) {
  return std::any_of(topology.nodes.begin(), topology.nodes.end(),
                     [&](const NumaNode& node) { return contradicts(sysroot, node, topology.cpus); });
}

PciIdentity identity_of(hwloc_obj_t device) {
  const auto& pci = device->attr->pcidev;
  PciIdentity identity{
      pci.class_id, pci.vendor_id, pci.device_id, pci.bus, device->name ? device->name : "", {}};
  for (hwloc_obj_t child = device->io_first_child; child != nullptr; child = child->next_sibling) {
    if (child->type != HWLOC_OBJ_OS_DEVICE) continue;
    const bool runs_code = child->attr->osdev.type == HWLOC_OBJ_OSDEV_COPROC;
    identity.os_devices.push_back({child->name ? child->name : "", info_of(child, "GPUModel"), runs_code});
  }
  return identity;
}

/// Reads the GPUs, and the devices that are none though they look like one. Precondition: the nodes are read.
void read_gpus(hwloc_topology_t hwloc, Topology& topology) {
  for (hwloc_obj_t device = nullptr; (device = hwloc_get_next_pcidev(hwloc, device)) != nullptr;) {
    const auto& pci = device->attr->pcidev;
    const PciIdentity identity = identity_of(device);
    const std::string address =
        format_text("{:04x}:{:02x}:{:02x}.{:x}", pci.domain, pci.bus, pci.dev, pci.func);
    const CpuSet near = cpuset_of(hwloc_get_non_io_ancestor_obj(hwloc, device)) & topology.cpus;
    if (!topology.pci_gpus) topology.pci_gpus.emplace();
    if (is_gpu_by_pci(identity)) topology.pci_gpus->push_back(gpu_of(identity, address, near, topology));
    if (!is_compute_gpu(identity)) {
      if (std::string why = why_no_gpu(identity); !why.empty())
        topology.left_out.push_back({address, pci_name(identity), std::move(why)});
      continue;
    }
    topology.gpus.push_back(gpu_of(identity, address, near, topology));
    topology.gpus.back().framework_number = framework_number(identity);
  }
  const auto by_address = [](const auto& a, const auto& b) { return a.pci_address < b.pci_address; };
  std::sort(topology.gpus.begin(), topology.gpus.end(), by_address);
  std::sort(topology.left_out.begin(), topology.left_out.end(), by_address);
  if (topology.pci_gpus) std::sort(topology.pci_gpus->begin(), topology.pci_gpus->end(), by_address);
}

/// hwloc looks for a package's first CPU in /proc/cpuinfo by its number. lxcfs numbers the CPUs there from 0,
/// so the number may be missing.
std::string cpu_model(hwloc_topology_t hwloc, const TopologySource& source) {
  std::string model = info_of(hwloc_get_obj_by_type(hwloc, HWLOC_OBJ_PACKAGE, 0), "CPUModel");
  if (model.empty()) model = info_of(hwloc_get_root_obj(hwloc), "CPUModel");
  if (model.empty() && source.topology.empty()) model = cpuinfo_field(source.sysroot, "model name");
  return model.substr(0, model.find_last_not_of(' ') + 1);  // AMD pads its names to 47 characters
}

Topology read_in_this_process(const TopologySource& source) {
  Topology topology;
  const Hwloc owned = load_hwloc(source, topology.missing);
  const hwloc_topology_t hwloc = owned.get();

  topology.is_this_machine = source.topology.empty() && source.sysroot.is_this_machine();
  topology.source = topology.is_this_machine  ? "this machine"
                    : source.topology.empty() ? source.sysroot.path().string()
                                              : source.topology;
  topology.cpu_model = cpu_model(hwloc, source);
  topology.cpus = ids_of<Pu>(hwloc_topology_get_topology_cpuset(hwloc));
  topology.complete_cpus = ids_of<Pu>(hwloc_topology_get_complete_cpuset(hwloc)) | topology.cpus;
  topology.allowed_cpus = ids_of<Pu>(hwloc_topology_get_allowed_cpuset(hwloc)) & topology.cpus;
  topology.allowed_nodes = ids_of<Node>(hwloc_topology_get_allowed_nodeset(hwloc));
  topology.packages = std::max(hwloc_get_nbobjs_by_type(hwloc, HWLOC_OBJ_PACKAGE), 1);

  std::vector<NodeLocality> localities;
  read_nodes(hwloc, topology, localities);
  topology.cpu_kinds = read_cpu_kinds(hwloc, source);
  read_cores(hwloc, topology, localities);
  if (source.topology.empty()) topology.nodes_contradict = nodes_contradict(source.sysroot, topology);
  read_gpus(hwloc, topology);
  std::sort(topology.nodes.begin(), topology.nodes.end(),
            [](const NumaNode& a, const NumaNode& b) { return a.id < b.id; });
  return topology;
}

}  // namespace

Topology read_topology(const TopologySource& source) {
  return read_in_this_process(tried_in_child(source, read_in_this_process));
}

}  // namespace zf
