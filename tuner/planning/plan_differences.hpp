// Compares a machine and an allocation with those of a plan. Pure.
#pragma once

#include "machine/machine.hpp"
#include "plan/plan_check.hpp"

namespace zf {

/// Whether to compare GPUs: nodes of one class may have other GPUs, or the same ones in other slots.
enum class GpusOfRanks { compared, left_out };

/// Returns one sentence per difference; empty if the plan fits here. It reports differences of the hardware
/// class (see class_differences), CPUs that went offline or came back, CPUs and nodes of the plan that are
/// not allowed, any other CPU quota (homes are sized by it), a tighter memory limit, and GPUs of ranks that
/// are missing, hidden or on another node. More CPUs or memory than in the plan are not reported.
std::vector<PlanDifference> plan_differences(const Plan& plan, const Machine& machine,
                                             GpusOfRanks gpus = GpusOfRanks::compared);

}  // namespace zf
