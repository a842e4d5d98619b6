// Says what the processes of one rank make of its home. Pure.
#pragma once

#include <string>
#include <vector>

#include "inspect/job_processes.hpp"
#include "plan/plan.hpp"
#include "plan/process_binding.hpp"

namespace zf {

/// The processes of one rank that were started by one launch, and the binding that they are compared with.
/// `members` is never empty: first the process that was started first, then its descendants.
struct RankProcesses {
  ProcessBinding binding;
  std::vector<const JobProcess*> members;
};

/// A process and the binding that holds for it.
struct BoundProcess {
  const JobProcess* process = nullptr;
  ProcessBinding binding;
};

/// Groups processes: a process belongs to the group of its nearest ancestor that has the same binding. The
/// groups and their members keep the given order, but an ancestor comes before its descendants.
std::vector<RankProcesses> ranks_of(const std::vector<BoundProcess>& processes);

/// Returns the binding of a process: that of its ZF_BINDING, else the plan's entry of its ZF_PLAN (else of
/// plan.json). Throws Error if that cannot be read, or if the plan lacks the rank.
ProcessBinding binding_in_force(const JobProcess& process);

/// Returns the plan's entry for a rank as a binding, started as the plan's framework wants it. Throws
/// Error(usage) if the plan lacks the rank.
ProcessBinding planned_binding(const Plan& plan, int rank);

/// Returns true if the rank's processes may use only the training side: our own runtime uses the other one.
bool is_confined_to_training(const ProcessBinding& binding);

struct HomeUse {
  bool has_optimizer = false;  ///< a zf-optimizer runs
  CpuSet used;                 ///< CPUs that any thread may run on
  CpuSet unused;               ///< CPUs of the home that no thread may run on
  /// The processes between which a framework has divided the home again; empty if none did, or if the plan's
  /// framework (deepspeed-zenflow, superoffload) is one that does and no CPU of the home is unused.
  std::vector<const JobProcess*> divided;
  bool by_plan = false;  ///< the plan's framework has divided the home, and all of it is used
};

/// Looks at the main threads of the training processes. A framework has divided the home again if the main
/// threads of a process and of a child of it may each run only on a part of the home. This is how ZenFlow
/// does it. Three cases are not that:
/// - The parent has the training side and a zf-optimizer runs: our runtime has narrowed it.
/// - Only one thread, or one child of a process that has its whole home, is pinned: the user did that.
/// - A process is confined to the training side by its launcher (framework native).
/// A process that has exactly the training side is not named, only the other one.
HomeUse home_use(const RankProcesses& rank);

/// Returns "may run on 0-1 only: a framework has divided the home 0-7 again, as ZenFlow does, and no thread
/// may use 4 CPUs of it (4-7)" for one of HomeUse::divided.
std::string division_in_words(const JobProcess& process, const ProcessBinding& binding, const HomeUse& use);

/// Returns the CPUs that any thread of a process may run on.
CpuSet cpus_of_threads(const ProcessState& process);

}  // namespace zf
