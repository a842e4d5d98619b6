// What other processes and devices do with the CPUs: two samples, and the difference.
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

/// One line of /proc/interrupts that belongs to a device (its number, not the likes of LOC or NMI).
struct Interrupts {
  std::string device;                  ///< what the line ends with
  std::map<Pu, std::uint64_t> counts;  ///< since the machine was started
};

struct ActivitySample {
  Nanoseconds at_ns = 0;
  std::vector<ProcessState> processes;
  std::set<int> under_a_plan;            ///< those of them that zf-tune exec started (they carry ZF_RANK)
  std::map<int, Interrupts> interrupts;  ///< by number
};

/// What the plan is for. With neither, nothing is.
struct OwnJob {
  std::optional<std::string> slurm_job;       ///< SLURM_JOB_ID
  std::optional<std::filesystem::path> plan;  ///< ZF_PLAN of its processes names this file
};

/// All processes but `self` and those that zf-tune exec started for `own`: where both have a SLURM_JOB_ID
/// they must be equal, else the plan's file decides (one that exec has fitted to the allocation is another
/// file). What an earlier run left behind, and another job, are in.
ActivitySample sample_activity(const SysRoot& sysroot, int self, const OwnJob& own);

/// A thread's name, and what part of one CPU it took between two samples.
struct CpuTime {
  std::string process;
  int pid = 0;
  Pu cpu;        ///< where it ran last
  double share;  ///< 1: the whole of it
};

/// One entry per process and CPU of `cpus`, the busiest first.
std::vector<CpuTime> cpu_times(const ActivitySample& before, const ActivitySample& after, const CpuSet& cpus,
                               double ticks_per_s);

struct InterruptRate {
  int number = 0;
  std::string device;
  CpuSet cpus;  ///< those of the asked-for ones that served it meanwhile
  double per_s = 0;
};

/// Of the interrupts that `cpus` served, the most frequent first.
std::vector<InterruptRate> interrupt_rates(const ActivitySample& before, const ActivitySample& after,
                                           const CpuSet& cpus);

}  // namespace zf
