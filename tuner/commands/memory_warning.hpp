// Warns of a plan whose job cannot fit the node's memory.
#pragma once

#include <optional>
#include <string>

#include "base/state_format.hpp"
#include "machine/machine.hpp"
#include "plan/workload.hpp"

namespace zf {

/// Returns memory_shortage() of a workload on a machine; nothing also if the size of its memory is not known.
std::optional<std::string> memory_shortage_here(const Workload& workload, StateFormat state,
                                                const Machine& machine, const MachineSource& source);

/// What to do about it.
std::string memory_remedy(const Workload& workload);

/// Prints a warning to stderr if the job cannot fit, unless another rank of this node does.
void warn_of_memory(const Workload& workload, StateFormat state, const Machine& machine,
                    const MachineSource& source);

}  // namespace zf
