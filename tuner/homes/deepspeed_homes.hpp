// Homes that DeepSpeed can be told: equal runs of one ascending list of CPUs. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "homes/homes.hpp"
#include "homes/split.hpp"
#include "os/allowed.hpp"

namespace zf {

/// Why DeepSpeed's own rules would not give these bindings back, in words; absent: they would.
/// `machine_cores`: of the whole machine. Precondition: ranks numbered 0.. in order, at least one.
std::optional<std::string> why_not_deepspeed(const std::vector<RankBinding>& ranks, int machine_cores);

/// One home per rank, as large as they can all be, cores in ascending order and of one kind in one L3 group
/// as far as a split can tell: so every cut of them is one that why_not_deepspeed() has nothing against.
/// Cores that are left over are left out where that keeps a run in one NUMA node. Of siblings whose numbers
/// lie apart, and of several ranks' cores with unequal siblings, the first PU alone is taken. A single rank
/// has no CPU number from the machine's number of cores on. Throws Error(infeasible) when there are more
/// ranks than such cores.
std::vector<Home> deepspeed_homes(const Topology& topology, const Allowed& allowed, int ranks);

/// Why DeepSpeed cannot be told this split (see why_not_deepspeed); empty: it can.
std::string deepspeed_objection(const Split& split, const Topology& topology);

/// What the restriction leaves unused, in words: "CPUs 8-9 are in no home, 1 of 2 ranks lies on several NUMA
/// nodes".
std::string restriction_in_words(const std::vector<Home>& homes, const Allowed& allowed);

}  // namespace zf
