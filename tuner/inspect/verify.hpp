// Compares a running job with its plan.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "inspect/job_processes.hpp"
#include "os/sysroot.hpp"
#include "plan/plan.hpp"

namespace zf {

/// Memory on other nodes than the plan's is drift only from this share and this size on. Less is a few pages
/// that the loader or another thread touched first.
inline constexpr double kStrayMemoryShare = 0.01;
inline constexpr std::uint64_t kStrayMemoryBytes = std::uint64_t{16} << 20;

/// One thing that differs from the plan.
struct Drift {
  int rank = 0;
  int pid = 0;
  int tid = 0;       ///< 0: the whole process
  std::string name;  ///< the thread's, or the process's
  std::string what;  ///< "may run on 0-63, outside 0-3"
};

/// Returns every drift of a job. Three things must hold: every thread may run only on its side's CPUs; every
/// CPU of a running optimizer has a thread that is pinned to it alone; memory lies on the rank's nodes.
/// Throws Error(usage) for a rank that the plan lacks.
std::vector<Drift> drift_of(const Plan& plan, const std::vector<JobProcess>& job);

/// Returns the processes that are `pid` or below it and that `zf-tune exec` started; with `rank` also others,
/// as that rank. Throws Error(usage) if there is no such process or none was started so, and
/// Error(runtime_error) if it belongs to another user.
std::vector<JobProcess> find_descendants(const SysRoot& sysroot, int pid, std::optional<int> rank);

/// Returns the processes on this node that `zf-tune exec` started: inside a Slurm job only those of that job,
/// with `plan` only those under that file. Throws Error(runtime_error) if there are none.
std::vector<JobProcess> find_job(const SysRoot& sysroot, const std::optional<std::filesystem::path>& plan);

/// Compares each process with `plan`, or without one with the plan that it was started under. Then a plan
/// that is gone or cannot be read is drift as well. Throws as load_plan() does for `plan`.
std::vector<Drift> verify_job(const std::vector<JobProcess>& job,
                              const std::optional<std::filesystem::path>& plan);

/// Returns text for a person: each process, then each drift, ended by a newline.
std::string verification_text(const std::vector<JobProcess>& job, const std::vector<Drift>& drifts);

/// Returns {"processes": [{"rank", "side": "trainer" | "optimizer", "pid", "name", "threads", "cpus",
///   "memory_bytes": {"0": …} or null}], "drift": [{"rank", "pid", "tid" or null, "name", "what"}]}
std::string verification_json(const std::vector<JobProcess>& job, const std::vector<Drift>& drifts);

}  // namespace zf
