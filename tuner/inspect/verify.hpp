// Compares a running job with its plan.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "inspect/home_use.hpp"
#include "inspect/job_processes.hpp"
#include "inspect/watched_moves.hpp"
#include "os/sysroot.hpp"

namespace zf {

/// Memory on other nodes than the plan's is drift only from this share and this size on. Less is a few pages
/// that the loader or another thread touched first.
inline constexpr double kStrayMemoryShare = 0.01;
inline constexpr std::uint64_t kStrayMemoryBytes = std::uint64_t{16} << 20;

/// One thing that differs from the plan.
struct Drift {
  int rank = 0;
  int pid = 0;       ///< 0: the whole rank
  int tid = 0;       ///< 0: the whole process
  std::string name;  ///< the thread's, or the process's
  std::string what;  ///< "may run on 0-63, outside 0-3"
};

/// Returns every drift of the processes of one rank. As planned is:
/// - Each thread of a training process has its whole home, or CPUs of the training side: our runtime narrows
///   a process to it. A process that was started on the training side (framework native) has only that.
/// - The main thread of a rank's first process has all of that. So has that of each process in
///   which OpenMP binds threads. The user may have pinned other processes.
/// - If all processes are confined to the training side, a zf-optimizer runs. Without one, no thread uses the
///   rest.
/// - No framework has divided the home again, unless the plan says that this framework does: see home_use().
/// - Each thread of a zf-optimizer runs on the pool's CPUs, and each of these CPUs has a thread of its own.
///   In a shared home they are training's CPUs too.
/// - Memory lies on the rank's nodes.
/// Threads that had to leave CPUs which are gone are not blamed: one drift per process is "is degraded: …".
std::vector<Drift> drift_of(const RankProcesses& rank);

/// Returns the processes that are `pid` or below it and that `zf-tune exec` started; with `rank` also others,
/// as that rank. Throws Error(usage) if there is no such process or none was started so, and
/// Error(runtime_error) if it belongs to another user.
std::vector<JobProcess> find_descendants(const SysRoot& sysroot, int pid, std::optional<int> rank);

/// Returns the processes on this node that `zf-tune exec` started: inside a Slurm job only those of that job,
/// with `plan` only those under that file. Throws Error(runtime_error) if there are none.
std::vector<JobProcess> find_job(const SysRoot& sysroot, const std::optional<std::filesystem::path>& plan);

/// Compares each process with what it was started with: its ZF_BINDING, else its ZF_PLAN. A binding or a plan
/// that is gone or cannot be read is drift as well. With `plan`, processes that were started under another
/// file, or under none, are compared with `plan`; so are those without a ZF_BINDING. Throws as load_plan()
/// does for `plan`.
std::vector<Drift> verify_job(const std::vector<JobProcess>& job,
                              const std::optional<std::filesystem::path>& plan);

/// Returns text for a person: each process, then each drift, ended by a newline. Names are cut as one_line()
/// does.
std::string verification_text(const std::vector<JobProcess>& job, const std::vector<Drift>& drifts);

/// Returns {"processes": [{"rank", "side": "trainer" | "optimizer", "pid", "name", "threads", "cpus",
///   "memory_bytes": {"0": …} or null}], "drift": [{"rank", "pid" or null, "tid" or null, "name", "what"}]},
/// and with `watched` also "watched": {"seconds", "looks", "threads", "moved": [{"at_s", "pid", "tid",
///   "process", "thread", "from", "to"}], "cpus_changed": [{"at_s", "processes", "from", "to"}]}.
std::string verification_json(const std::vector<JobProcess>& job, const std::vector<Drift>& drifts,
                              const std::optional<WatchedMoves>& watched = std::nullopt);

}  // namespace zf
