// Finds the CPUs that the kernel keeps for threads which are pinned one by one (isolcpus=, nohz_full=).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/id_set.hpp"
#include "os/allowed.hpp"
#include "os/sysroot.hpp"

namespace zf {

/// The scheduler never moves a thread to or from an isolated CPU. A job that is bound to several of them has
/// all its threads on one.
struct IsolatedCpus {
  CpuSet isolated;                   ///< the boot option isolcpus=, or an isolated cpuset partition
  CpuSet nohz_full;                  ///< the boot option nohz_full=: made for one thread per CPU
  std::vector<std::string> missing;  ///< what could not be read, in words
  CpuSet all() const { return isolated | nohz_full; }
};

/// Reads both lists of /sys/devices/system/cpu. A kernel without these files has no such CPUs.
IsolatedCpus read_isolated_cpus(const SysRoot& sysroot);

/// Takes these CPUs out of what is allowed, with one Exclusion for each reason. Changes nothing if no other
/// CPU is allowed: then somebody gave the job isolated CPUs on purpose. Pure.
void leave_out_isolated(Allowed& allowed, const IsolatedCpus& isolated);

/// Returns what is special about those of `cpus` that are isolated, such as "CPUs 4-7 are isolated
/// (isolcpus, or a cpuset partition): …"; nothing if none is. Pure.
std::optional<std::string> isolation_in_words(const CpuSet& cpus, const IsolatedCpus& isolated);

}  // namespace zf
