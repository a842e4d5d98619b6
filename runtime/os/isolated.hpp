// Finds the CPUs that the kernel keeps for threads which are pinned one by one (isolcpus=, nohz_full=).
#pragma once

#include <optional>
#include <string>
#include <string_view>
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

/// Returns those of `allowed` that a job had better not use. Returns none if no other CPU is allowed: then
/// the job got isolated CPUs on purpose. CPUs of nohz_full= are left in if they are more than half
/// of those that are not isolated: the scheduler does move threads there, and the option often names all CPUs
/// but the boot CPU. Pure.
IsolatedCpus to_leave_out(const CpuSet& allowed, const IsolatedCpus& isolated);

/// Takes the CPUs of to_leave_out() out of what is allowed, with one Exclusion for each reason. Pure.
void leave_out_isolated(Allowed& allowed, const IsolatedCpus& isolated);

/// Returns what is special about those of `cpus` that are isolated, such as "CPUs 4-7 are isolated
/// (isolcpus, or a cpuset partition): …"; nothing if none is. Pure.
std::optional<std::string> isolation_in_words(const CpuSet& cpus, const IsolatedCpus& isolated);

/// Returns why to_leave_out() has left isolated CPUs in `cpus`: "no other CPU is allowed", or "most of the
/// allowed CPUs are", which means nohz_full. Pure.
std::string_view why_not_left_out(const CpuSet& cpus, const IsolatedCpus& isolated);

}  // namespace zf
