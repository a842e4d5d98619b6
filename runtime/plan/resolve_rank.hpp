// Which rank of a plan this process is. Pure.
#pragma once

#include <cstddef>
#include <optional>

#include "os/environment.hpp"

namespace zf {

/// Returns which rank of a plan of `ranks` ranks this process is, and what says so: local_rank(), else "the
/// plan's only rank" if there is one rank. Returns nothing if there are several and no variable says which
/// one. Throws like local_rank().
std::optional<EnvNumber> resolve_rank(std::size_t ranks, const Environment& environment);

}  // namespace zf
