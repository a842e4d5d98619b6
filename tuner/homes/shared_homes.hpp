// The homes of ranks on CPUs that neighbours share: a quota pays for a part of them (os/shared_cpus.hpp). If
// homes were cut as usual, every job of the node would take the same cores. Pure.
#pragma once

#include <vector>

#include "homes/homes.hpp"
#include "os/allowed.hpp"

namespace zf {

/// Returns one home per preference: all allowed CPUs of the rank's node, else of its package, else of the
/// machine. Homes may overlap. Each has as many threads (Home::cores) as the quota pays for: an equal part
/// for every rank, at most one for each core that the rank's CPUs have for it, and at least one. Throws
/// Error(infeasible) if there are more ranks than allowed cores. Preconditions: at least one preference, and
/// allowed.shared_cpus.
std::vector<Home> shared_homes(const Topology& topology, const Allowed& allowed,
                               const std::vector<Preference>& preferences);

/// Returns a note for the allocation: what the CPU quota pays for, in words.
std::string shared_homes_note(const std::vector<Home>& homes, const Allowed& allowed);

/// Throws Error(infeasible): DeepSpeed divides CPUs among ranks and sides, and those that neighbours share
/// cannot be divided.
[[noreturn]] void refuse_shared_cpus_for_deepspeed(const Allowed& allowed);

/// Warns of a plan that pins threads to CPUs that neighbours share.
inline constexpr const char* kPinnedAmongNeighbours =
    "neighbours share these CPUs, and the plan pins threads to some of them, as other jobs of this node may "
    "do; "
    "`zf-tune plan --from` lets the threads run on all CPUs near their GPU";

}  // namespace zf
