// Tells whether two nodes, or two allocations, are alike enough for one plan to be good on both. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "os/allowed.hpp"
#include "plan/gpu_places.hpp"
#include "plan/machine_class.hpp"
#include "topology/topology.hpp"

namespace zf {

/// Returns the machine's class. It covers, as far as they are online: the CPU model, packages, NUMA nodes and
/// their CPUs, nodes without CPUs that hold memory (HBM, CXL), L3 groups and their sizes, cores and their
/// PUs. It leaves out memory sizes (the firmware reserves a varying part), GPUs and the nodes of their memory
/// (they appear and disappear with the driver), host names, and what is allowed.
MachineClass machine_class_of(const Topology& topology);

/// Returns where PCI shows GPUs (Topology::pci_gpus): the part of a plan's identity that the class leaves
/// out. Drivers, device nodes, MIG and lists of visible devices change nothing in it. Returns nothing if PCI
/// shows no device.
std::optional<GpuPlaces> gpu_places_of(const Topology& topology);

/// Returns "2 GPUs (10de:2330) on node 0, 2 GPUs (10de:2330) on node 1"; "no GPU" if there is none.
std::string in_words(const GpuPlaces& gpus);

/// Returns what is allowed, tied to the machine's class.
Allocation allocation_of(const Allowed& allowed, const MachineClass& machine);

/// Returns one sentence for each way in which this machine is not of the plan's class; empty if it is.
/// `there` says where the other class was found.
std::vector<std::string> class_differences(const MachineClass& planned, const MachineClass& present,
                                           std::string_view there = "in the plan");

/// Returns true for GPU memory that the driver adds and removes (Grace Hopper, POWER9). hwloc names it
/// "GPUMemory"; before the driver is loaded, its node may exist and be empty.
bool comes_with_a_driver(const NumaNode& node);

/// Returns the 64-bit FNV-1a hash as 16 hex digits. It notices changes; it does not resist an attacker.
std::string digest(std::string_view text);

}  // namespace zf
