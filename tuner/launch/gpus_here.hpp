// Fits a plan to the GPUs of this node, for exec and the SPANK plugin.
#pragma once

#include <string>
#include <vector>

#include "machine/machine.hpp"
#include "plan/plan.hpp"

namespace zf {

/// Returns the way to read the machine that gives every rank of a node the same answer. It asks no driver,
/// and reads no speeds, because these change.
MachineSource source_for_all_ranks();

/// A plan for this node, and a note if its homes are not those of the file.
struct PlanHere {
  Plan plan;
  std::vector<std::string> notes = {};
};

/// Returns the plan with homes near this node's GPUs, as `zf-tune publish` does, if PCI shows other GPUs than
/// the plan has, or shows them elsewhere. Every rank does this by itself. All find
/// the same plan, because PCI shows all of them the same. If the
/// homes cannot be fitted, the plan stays as it is, and a note says why.
PlanHere fitted_to_gpus_here(const Plan& plan, const std::string& path);

}  // namespace zf
