// Puts a plan together from its parts. Pure, but for the clock and the host's name in the provenance.
#pragma once

#include <string>
#include <vector>

#include "homes/split.hpp"
#include "machine/machine.hpp"
#include "plan/plan.hpp"

namespace zf {

/// Who made it, when (UTC), where: `command` as typed.
Provenance provenance_of(std::string command);

/// A whole plan for `split`; evidence may be empty (nothing measured). `notes` are of the allocation (see
/// RankHomes); those that follow from the bindings themselves (a shared core) are added.
Plan assemble(Provenance made, const Machine& machine, const Workload& workload, const Split& split,
              const Choice& choice, Evidence evidence, std::vector<std::string> warnings,
              std::vector<std::string> notes);

}  // namespace zf
