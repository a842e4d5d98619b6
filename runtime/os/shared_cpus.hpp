// Tells whether other jobs of the node use the same CPUs as this one. Pure.
#pragma once

#include "base/id_set.hpp"
#include "os/allowed.hpp"

namespace zf {

/// Returns true if neighbours share the allowed CPUs: there is a CPU quota for fewer CPUs than are allowed,
/// and nothing says which CPUs are this job's, so every job of the node sees all of them (Kubernetes without
/// the static policy, docker --cpus). A cpuset, an affinity mask or --allowed narrower than the node says
/// which. That a mask lacks CPUs of `isolated` does not count, because init's mask lacks them too.
bool neighbours_share(const Allowed& allowed, const CpuSet& isolated);

}  // namespace zf
