// Tells whether other jobs of the node use the same CPUs as this one. Pure.
#pragma once

#include <optional>
#include <string>

#include "os/allowed.hpp"
#include "os/isolated.hpp"

namespace zf {

/// Returns true if neighbours share the allowed CPUs: a CPU quota pays for fewer than nine tenths of them, so
/// other jobs use them too. This is Kubernetes without the static policy, its shared pool with it, and docker
/// --cpus, with and without --cpuset-cpus. CPUs that a job has alone come without a quota, or with one for
/// all of them.
///
/// Returns false if an affinity mask says which CPUs are this job's. That a mask lacks isolated CPUs does not
/// count, because init's mask lacks them too. Returns false, too, if all CPUs are isolated: there the
/// scheduler moves no thread, so threads have to be pinned.
///
/// --allowed does not count here: the CPUs that it leaves out are compared with the quota as well.
/// read_machine() takes what --allowed names as the job's own.
bool neighbours_share(const Allowed& allowed, const IsolatedCpus& isolated);

/// Returns a sentence if the quota pays for nearly all allowed CPUs, so that they count as the job's own.
std::optional<std::string> nearly_whole_quota_note(const Allowed& allowed);

}  // namespace zf
