// Everything in which a machine and an allocation are not those of a plan. Pure.
#pragma once

#include "machine/machine.hpp"
#include "plan/plan_check.hpp"

namespace zf {

/// Nodes of one class may have other GPUs, or the same ones elsewhere.
enum class GpusOfRanks { compared, left_out };

/// In words, one for each; empty: the plan is right here. Those of the hardware class (see
/// class_differences), CPUs that went offline or came back, CPUs and nodes of the plan that are not allowed,
/// any other CPU quota (homes are sized by it), a tighter memory limit, and GPUs of ranks that are gone,
/// hidden or elsewhere. More CPUs or memory than the plan had are no difference.
std::vector<PlanDifference> plan_differences(const Plan& plan, const Machine& machine,
                                             GpusOfRanks gpus = GpusOfRanks::compared);

}  // namespace zf
