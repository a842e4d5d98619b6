// Puts a plan together from its parts. Pure, except for the clock and the host's name in the provenance.
#pragma once

#include <string>
#include <vector>

#include "homes/split.hpp"
#include "machine/machine.hpp"
#include "plan/plan.hpp"

namespace zf {

/// Returns who made the plan, when (UTC) and where. `command` is the command line as typed.
Provenance provenance_of(std::string command);

/// Returns a complete plan for `split`. The evidence may be empty (nothing was measured). `notes` describe
/// the allocation (see RankHomes); assemble() adds a note for each rank whose two sides share a core.
Plan assemble(Provenance made, const Machine& machine, const Workload& workload, const Split& split,
              const Choice& choice, Evidence evidence, std::vector<std::string> warnings,
              std::vector<std::string> notes);

}  // namespace zf
