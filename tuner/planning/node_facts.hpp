// Facts that hold for one node and not for its class: which CPUs its kernel isolates, which of its cores are
// fast today, and where its GPUs are. A class's plan gets these facts once per node. Pure.
#pragma once

#include <optional>
#include <string>

#include "machine/machine.hpp"
#include "os/allowed.hpp"
#include "os/isolated.hpp"
#include "plan/plan.hpp"

namespace zf {

/// Returns a sentence if the plan's homes have isolated CPUs, the plan does not intend that, and others are
/// allowed. `allowed` includes isolated CPUs.
std::optional<std::string> isolated_homes_note(const Plan& plan, const Allowed& allowed,
                                               const IsolatedCpus& isolated);

/// Returns true if PCI shows other GPUs here than where the plan was made, or shows GPUs elsewhere. Of `here`
/// it needs the CPUs, the nodes and the GPUs of PCI.
bool has_gpus_elsewhere(const Plan& plan, const Topology& here);

enum class NodeGpus { looked_at, left_out };

/// Returns the plan of a class with homes for this node. The plan stays as it is unless its homes have
/// isolated CPUs that it does not intend, some cores of one make are faster today than others, or its GPUs
/// are not where PCI shows them here (has_gpus_elsewhere()), if that is looked at. Then new homes are cut
/// from the plan's own allocation, near the node's GPUs: those of the same address, else those that
/// renewed_gpus() gives to the ranks. If that is impossible, the plan stays as it is, and `why_not` gets a
/// sentence.
Plan with_facts_of_node(const Plan& plan, const Machine& node, NodeGpus gpus = NodeGpus::looked_at,
                        std::string* why_not = nullptr);

}  // namespace zf
