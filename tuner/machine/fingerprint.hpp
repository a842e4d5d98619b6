// What two nodes, or two allocations, must have in common for a plan to be good on both. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "machine/topology.hpp"
#include "os/allowed.hpp"
#include "plan/plan.hpp"

namespace zf {

/// The machine's class: CPU model, packages, NUMA nodes and their CPUs, nodes without CPUs that hold memory
/// (HBM, CXL), L3 groups and sizes, cores and their PUs, all of them as far as they are online. Not in it:
/// memory sizes (firmware keeps a varying bit), GPUs and the nodes of their memory, which come and go with
/// the driver, host names, what is allowed.
MachineClass machine_class_of(const Topology& topology);

/// What is allowed, tied to the machine's class.
Allocation allocation_of(const Allowed& allowed, const MachineClass& machine);

/// Every way in which this machine is not of the plan's class, in words; empty when it is.
std::vector<std::string> class_differences(const MachineClass& planned, const MachineClass& present);

/// FNV-1a, 64 bits, as 16 hex digits: to notice change, not to resist an attacker.
std::string digest(std::string_view text);

}  // namespace zf
