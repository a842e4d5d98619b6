// Compares a machine and an allocation with those of a plan. Pure.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "machine/machine.hpp"
#include "plan/plan_check.hpp"

namespace zf {

/// The choice whether GPUs are compared: nodes of one class may have other GPUs, or the same ones in other
/// slots.
enum class GpusOfRanks { compared, left_out };

/// The choice whether the plan is compared with what this process may use of the machine, or with all of the
/// machine: a daemon may be confined to few CPUs, on a machine where jobs may use the others.
enum class Extent { allocation, whole_node };

/// Returns one sentence per difference; empty if the plan fits here. It reports differences of the hardware
/// class (see class_differences) and CPUs that went offline or came back, and no more if the class differs by
/// more than CPUs that are offline here. Else it also reports CPUs and nodes of the plan that are not
/// allowed, any other CPU quota (homes are sized by it), a tighter memory limit, and GPUs of ranks that are
/// missing, hidden, on another node or, if the plan says it, near other CPUs. More CPUs or memory than in the
/// plan are not reported. With Extent::whole_node, nothing that is allowed or limited is reported.
std::vector<PlanDifference> plan_differences(const Plan& plan, const Machine& machine,
                                             GpusOfRanks gpus = GpusOfRanks::compared,
                                             Extent extent = Extent::allocation);

}  // namespace zf
