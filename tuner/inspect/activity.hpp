// What other processes and devices do with the CPUs: two samples and the difference between them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/id_set.hpp"
#include "inspect/processes.hpp"
#include "os/sysroot.hpp"

namespace zf {

/// One line of /proc/interrupts that belongs to a device: a line with a number, not with a name such as LOC
/// or NMI.
struct Interrupts {
  std::string device;                  ///< the last word of the line
  std::map<Pu, std::uint64_t> counts;  ///< since the machine started
};

struct ActivitySample {
  Nanoseconds at_ns = 0;
  std::vector<ProcessState> processes;
  std::set<int> under_a_plan;  ///< the ids of processes that zf-tune exec started (they have ZF_RANK)
  std::map<int, Interrupts> interrupts;  ///< by number
};

/// The marks of the job that the plan is for. If neither value is set, no process belongs to it.
struct OwnJob {
  std::optional<std::string> slurm_job;       ///< SLURM_JOB_ID
  std::optional<std::filesystem::path> plan;  ///< the file that ZF_PLAN of its processes names
};

/// Samples all processes except `self` and those that zf-tune exec started for `own`. If both have a
/// SLURM_JOB_ID, a process belongs to `own` if the two are equal; else if its plan is the same file.
/// Processes of another job or left over from an earlier run are included.
ActivitySample sample_activity(const SysRoot& sysroot, int self, const OwnJob& own);

/// The share of one CPU that a process took between two samples.
struct CpuTime {
  std::string process;
  int pid = 0;
  Pu cpu;        ///< the CPU its threads ran on last
  double share;  ///< 1: the whole CPU
};

/// Returns one entry per process and CPU of `cpus`, the busiest first.
std::vector<CpuTime> cpu_times(const ActivitySample& before, const ActivitySample& after, const CpuSet& cpus,
                               double ticks_per_s);

struct InterruptRate {
  int number = 0;
  std::string device;
  CpuSet cpus;  ///< the given CPUs that served it between the samples
  double per_s = 0;
};

/// Returns the interrupts that `cpus` served, the most frequent first.
std::vector<InterruptRate> interrupt_rates(const ActivitySample& before, const ActivitySample& after,
                                           const CpuSet& cpus);

}  // namespace zf
