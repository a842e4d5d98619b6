// Puts a plan together from its parts. Pure, except for the clock and the host's name in the provenance.
#pragma once

#include <string>
#include <vector>

#include "gpus/rank_gpus.hpp"
#include "homes/split.hpp"
#include "machine/machine.hpp"
#include "plan/plan.hpp"

namespace zf {

/// Returns who made the plan, when (UTC) and where. `command` is the command line as typed.
Provenance provenance_of(std::string command);

/// Takes the preference of memory nodes from a plan if Topology::nodes_contradict, and lets the reason of the
/// choice say so. Otherwise takes that sentence out of a reason that came with the plan from another node.
void prefer_known_memory(const Topology& topology, Plan& plan);

/// Returns a complete plan for `split`. The evidence may be empty (nothing was measured). `notes` describe
/// the allocation (see RankHomes); assemble() adds a note for each rank with two sides that share a core, and
/// calls prefer_known_memory().
Plan assemble(Provenance made, const Machine& machine, const Workload& workload, const Split& split,
              const Choice& choice, Evidence evidence, std::vector<std::string> warnings,
              std::vector<std::string> notes);

/// Writes into a plan, with homes that were cut for these GPUs, what the homes do not have: how many GPUs a
/// rank has or ranks a GPU, the GPUs of each rank after its first, and the GPUs that spread the ranks.
void record_gpus(const RankGpus& gpus, Plan& plan);

}  // namespace zf
