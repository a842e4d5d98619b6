#include "machine/fingerprint.hpp"

#include <algorithm>
#include <cstdint>

#include "base/cpu_list.hpp"
#include "base/format.hpp"
#include "base/text.hpp"

namespace zf {
namespace {

/// Returns one line per fact, in the topology's order, which does not depend on what is allowed.
std::string class_text(const Topology& topology) {
  std::string text = format_text("model {}\npackages {}\n", topology.cpu_model, topology.packages);
  for (const NumaNode& node : topology.nodes) {
    if (comes_with_a_driver(node)) continue;
    text += format_text("node {} cpus {} {}\n", node.id.os_index, print(node.cpus), node.subtype);
  }
  for (const L3Group& group : topology.l3_groups) {
    text += format_text("l3 {} bytes {}\n", print(group.cpus), group.cache_bytes);
  }
  for (const Core& core : topology.cores)
    text += format_text("core {} package {}\n", print(core.cpus), core.package);
  return text;
}

/// Returns the likely cause of another number of NUMA nodes on the same packages and cores.
std::string_view numa_mode(const MachineClass& planned, const MachineClass& present) {
  const bool same_cores = planned.packages == present.packages && planned.cores == present.cores;
  return same_cores ? " (the firmware's NUMA mode differs: NPS or sub-NUMA clustering)" : "";
}

std::string_view smt(const MachineClass& planned, const MachineClass& present) {
  if (planned.cores != present.cores) return "";
  if (present.pus == present.cores) return " (SMT is off here)";
  return planned.pus == planned.cores ? " (SMT is on here)" : "";
}

}  // namespace

bool comes_with_a_driver(const NumaNode& node) {
  return node.is_cpuless() && (node.subtype == "GPUMemory" || node.memory_bytes == 0);
}

std::string digest(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return format_text("{:016x}", hash);
}

MachineClass machine_class_of(const Topology& topology) {
  MachineClass machine;
  machine.fingerprint = digest(class_text(topology));
  machine.model = topology.cpu_model;
  machine.packages = topology.packages;
  machine.numa_nodes = static_cast<int>(std::count_if(
      topology.nodes.begin(), topology.nodes.end(), [](const NumaNode& node) { return !node.is_cpuless(); }));
  machine.cores = static_cast<int>(topology.cores.size());
  machine.pus = static_cast<int>(topology.cpus.size());
  machine.cpus = topology.cpus;
  return machine;
}

std::optional<GpuPlaces> gpu_places_of(const Topology& topology) {
  if (!topology.pci_gpus) return std::nullopt;
  GpuPlaces gpus;
  for (const Gpu& gpu : *topology.pci_gpus) {
    const GpuPlace place{format_text("{:04x}:{:04x}", gpu.vendor_id, gpu.device_id), 1, gpu.node};
    const bool alike =
        !gpus.places.empty() && gpus.places.back().kind == place.kind && gpus.places.back().node == gpu.node;
    if (alike) {
      ++gpus.places.back().count;
    } else {
      gpus.places.push_back(place);
    }
  }
  std::string text;
  for (const GpuPlace& place : gpus.places)
    text +=
        format_text("gpus {} {} node {}\n", place.count, place.kind, place.node ? place.node->os_index : -1);
  gpus.fingerprint = digest(text);
  return gpus;
}

std::string in_words(const GpuPlaces& gpus) {
  std::string text;
  for (const GpuPlace& place : gpus.places) {
    text += format_text("{}{} ({}) {}", text.empty() ? "" : ", ",
                        print_count(static_cast<std::size_t>(place.count), "GPU"), place.kind,
                        place.node ? format_text("on node {}", place.node->os_index) : "on no known node");
  }
  return text.empty() ? "no GPU" : text;
}

Allocation allocation_of(const Allowed& allowed, const MachineClass& machine) {
  Allocation allocation;
  allocation.cpus = allowed.cpus;
  allocation.mems = allowed.mems;
  allocation.cpu_quota = allowed.cpu_quota;
  allocation.memory_bytes = allowed.memory_bytes;
  allocation.shared_cpus = allowed.shared_cpus;
  allocation.fingerprint = digest(
      format_text("{}\ncpus {}\nmems {}\nquota {}\nmemory {}\n", machine.fingerprint, print(allowed.cpus),
                  print(allowed.mems), allowed.cpu_quota.value_or(0), allowed.memory_bytes.value_or(0)));
  return allocation;
}

std::vector<std::string> class_differences(const MachineClass& planned, const MachineClass& present,
                                           std::string_view there) {
  std::vector<std::string> differences;
  const auto differ = [&](std::string_view what, const auto& then, const auto& now,
                          std::string_view cause = "") {
    if (then != now)
      differences.push_back(format_text("{}: {} {}, {} here{}", what, then, there, now, cause));
  };
  const auto named = [](const std::string& model) { return model.empty() ? "unknown" : model; };
  differ("CPU model", named(planned.model), named(present.model));
  differ("packages", planned.packages, present.packages);
  differ("NUMA nodes with CPUs", planned.numa_nodes, present.numa_nodes, numa_mode(planned, present));
  differ("cores", planned.cores, present.cores);
  differ("PUs", planned.pus, present.pus, smt(planned, present));
  differ("CPUs", print(planned.cpus), print(present.cpus));
  if (differences.empty() && planned.fingerprint != present.fingerprint) {
    differences.push_back(format_text("layout of cores, caches and NUMA nodes: fingerprint {} {}, {} here",
                                      planned.fingerprint, there, present.fingerprint));
  }
  return differences;
}

}  // namespace zf
