// What limits the memory of a job on this node, and a warning of a plan if its job cannot fit it.
#pragma once

#include <optional>
#include <string>

#include "base/state_format.hpp"
#include "fit/verdict.hpp"
#include "machine/machine.hpp"
#include "plan/workload.hpp"

namespace zf {

/// Returns limits_of() a machine. If it is this machine, the memory policy of the calling thread counts too.
NodeLimits limits_here(const Machine& machine, const MachineSource& source);

/// Returns memory_shortage() of a workload on a machine. Returns nothing, too, if the size of the machine's
/// memory is not known.
std::optional<std::string> memory_shortage_here(const Workload& workload, StateFormat state,
                                                const Machine& machine, const MachineSource& source);

/// Returns what the user can do about a shortage.
std::string memory_remedy(const Workload& workload);

/// Prints a warning to stderr if the job cannot fit, unless another rank of this node prints it.
void warn_of_memory(const Workload& workload, StateFormat state, const Machine& machine,
                    const MachineSource& source);

}  // namespace zf
