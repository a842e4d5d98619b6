// Warns of a job that has too few cores or too little memory on this node.
#pragma once

#include <optional>
#include <string>

#include "base/state_format.hpp"
#include "fit/verdict.hpp"
#include "machine/machine.hpp"
#include "os/environment.hpp"
#include "plan/workload.hpp"

namespace zf {

/// Returns true unless this process is a rank other than rank 0, which speaks for the node.
bool speaks_for_node(const Environment& environment);

/// Prints a warning to stderr if the ranks have few cores (core_shortage.hpp), unless another rank of this
/// node does. Prints nothing if there are fewer cores than ranks: the error says that.
void warn_of_few_cores(const Machine& machine, int ranks);

/// Prints a warning to stderr if the job cannot fit, unless another rank of this node prints it.
void warn_of_memory(const Workload& workload, StateFormat state, const Machine& machine,
                    const MachineSource& source);

/// Returns limits_of() a machine. If it is this machine, the memory policy of the calling thread counts too.
NodeLimits limits_here(const Machine& machine, const MachineSource& source);

/// Returns memory_shortage() of a workload on a machine. Returns nothing, too, if the size of the machine's
/// memory is not known.
std::optional<std::string> memory_shortage_here(const Workload& workload, StateFormat state,
                                                const Machine& machine, const MachineSource& source);

/// Returns what the user can do about a shortage.
std::string memory_remedy(const Workload& workload);

}  // namespace zf
