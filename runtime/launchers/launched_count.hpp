// How many ranks a launcher says that it has started on this node. Pure.
#pragma once

#include <optional>

#include "launchers/launcher.hpp"
#include "os/environment.hpp"

namespace zf {

/// Returns the number of local ranks by the launcher's CountRule, and where it is from: a variable, or
/// count_name(). Returns nothing if the launcher does not say, if the ranks of all nodes do not divide by the
/// nodes, or if the list of all nodes has no number for ours. Throws Error(usage) with the variable if one of
/// its variables, other than that list, is not a whole number of 1 or more (a node's number: 0 or more).
std::optional<EnvNumber> launched_count(const Environment& environment, const Launcher& launcher);

}  // namespace zf
