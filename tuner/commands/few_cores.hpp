// Warns once per node of too few cores for the ranks.
#pragma once

#include "machine/machine.hpp"
#include "os/environment.hpp"

namespace zf {

/// Returns true unless this process is a rank other than rank 0, which speaks for the node.
bool speaks_for_node(const Environment& environment);

/// Prints a warning to stderr if the ranks have few cores (core_shortage.hpp), unless another rank of this
/// node does. Prints nothing if there are fewer cores than ranks: the error says that.
void warn_of_few_cores(const Machine& machine, int ranks);

}  // namespace zf
