// What limits the memory of a job on this node, and a warning of a plan if its job cannot fit it.
#pragma once

#include <optional>
#include <string>

#include "base/state_format.hpp"
#include "fit/verdict.hpp"
#include "machine/machine.hpp"
#include "plan/workload.hpp"

namespace zf {

/// Returns limits_of() a machine, with the memory policy of the calling thread if it is this one.
NodeLimits limits_here(const Machine& machine, const MachineSource& source);

/// Returns memory_shortage() of a workload on a machine; nothing also if the size of its memory is not known.
std::optional<std::string> memory_shortage_here(const Workload& workload, StateFormat state,
                                                const Machine& machine, const MachineSource& source);

/// What to do about it.
std::string memory_remedy(const Workload& workload);

/// Prints a warning to stderr if the job cannot fit, unless another rank of this node does.
void warn_of_memory(const Workload& workload, StateFormat state, const Machine& machine,
                    const MachineSource& source);

}  // namespace zf
