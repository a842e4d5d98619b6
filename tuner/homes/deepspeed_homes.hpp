// Homes that DeepSpeed can be told: equal runs of one ascending list of CPUs. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "homes/homes.hpp"
#include "homes/split.hpp"
#include "os/allowed.hpp"
#include "plan/workload.hpp"

namespace zf {

/// Returns the reason why DeepSpeed's own rules would not reproduce these bindings; nothing if they would.
/// `machine_cores` counts the cores of the whole machine. SuperOffload, unlike ZeRO-Offload and ZenFlow,
/// cannot let both sides share a home. Precondition: at least one rank, numbered from 0 in order.
std::optional<std::string> why_not_deepspeed(const std::vector<RankBinding>& ranks, int machine_cores,
                                             Framework framework = Framework::unknown);

/// Returns one home per rank, all of the same and largest possible size, so that why_not_deepspeed() accepts
/// every split of them. Their cores are in ascending order, and all have the same kind and L3 group, so that
/// a split cannot reorder them.
///
/// Cores that remain are left out where this keeps a home inside one NUMA node. Only the first PU of a core
/// is used if the numbers of its siblings lie apart, or if there are several ranks and cores differ in their
/// number of PUs. The home of a single rank has no CPU number equal to or above the machine's number of
/// cores. Throws Error(infeasible) if there are fewer such cores than one per rank, or two for SuperOffload.
std::vector<Home> deepspeed_homes(const Topology& topology, const Allowed& allowed, int ranks,
                                  Framework framework = Framework::unknown);

/// Returns the reason why DeepSpeed cannot be told this split (see why_not_deepspeed); empty if it can.
std::string deepspeed_objection(const Split& split, const Topology& topology,
                                Framework framework = Framework::unknown);

/// Returns a sentence for each way in which DeepSpeed's own cuts deal fast cores badly: some rank has fewer
/// than an even share of those that are allowed; a rank trains on some slow cores while its optimizer has
/// fast ones, because DeepSpeed trains on the lowest CPUs. Returns none if all cores are alike. If all
/// cores are of one make, and some are fast today, a cut along L3 groups is not bad. `split` is one of
/// deepspeed_homes().
std::vector<std::string> unfair_fast_cores(const Split& split, const Topology& topology,
                                           const CpuSet& allowed);

/// Says what the restriction leaves unused: "CPUs 8-9 are in no home, 1 of 2 ranks spans several NUMA nodes".
std::string restriction_in_words(const std::vector<Home>& homes, const Allowed& allowed);

}  // namespace zf
