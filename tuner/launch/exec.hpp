// Binds this process by a plan and replaces it by the command: what `zf-tune exec` does, or shows with
// --dry-run.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/id_set.hpp"
#include "os/allowed.hpp"
#include "os/environment.hpp"
#include "plan/plan.hpp"
#include "plan/process_binding.hpp"

namespace zf {

/// The changes to this process before the command replaces it.
struct Launch {
  int rank = 0;
  std::string rank_source;                 ///< "--rank", "LOCAL_RANK", …; empty: no plan is in force
  CpuSet cpus;                             ///< the CPUs to bind to; empty: keep the binding
  std::optional<ProcessBinding> binding;   ///< what the runtime in the command is told (ZF_BINDING)
  NodeSet mems;                            ///< the nodes to prefer; empty: keep the policy
  std::map<std::string, std::string> set;  ///< environment variables to set
  /// The user's settings that are kept, what was dropped. Parts of the plan are in them as they are: print
  /// each with one_line().
  std::vector<std::string> notes;
};

/// Whose CPUs are those that this process may use?
enum class CpusOf {
  unsaid,  ///< find out, and refuse if it is ambiguous
  job,     ///< all ranks of this node share them
  rank,    ///< this rank has them alone, as in a container per rank
};

struct LaunchRequest {
  std::filesystem::path plan_path;  ///< for ZF_PLAN; launch_of() needs an absolute path
  std::optional<int> rank;          ///< --rank
  bool force = false;               ///< continue in spite of errors, unbound if necessary
  std::optional<int> ranks = {};    ///< on this node, if the caller knows
  CpusOf cpus_of = CpusOf::unsaid;  ///< --cpus
};

/// Returns this process's local rank and its source. Throws Error(usage) if the rank is unknown.
EnvNumber resolve_rank(const Plan& plan, const LaunchRequest& request, const Environment& environment);

/// Returns how many ranks run on this node: the request's number, else the launcher's, else the plan's.
int resolve_rank_count(const Plan& plan, const LaunchRequest& request, const Environment& environment);

/// How a plan fits the CPUs that a rank sees.
enum class Fit {
  as_planned,  ///< every rank gets the home that it has in the plan
  new_homes,   ///< all ranks compute new homes from the CPUs that they see
  ambiguous,   ///< the CPUs may be the job's or this rank's alone, and the ranks would not agree
};

/// Returns how a plan fits. Each rank asks alone, and all ranks must act alike although each may see other
/// CPUs. `seen` is what this process may use, and `of_job` the same without its affinity mask. `isolated` are
/// the CPUs of isolcpus=: init's mask lacks them, so it is nobody's choice that a mask lacks them too.
/// - If `seen` has the homes of all ranks, the plan holds as planned: unless the number of ranks differs, or
///   a CPU quota that is not the plan's covers fewer CPUs than the plan runs threads.
/// - Otherwise it is ambiguous for several ranks if the affinity mask takes CPUs away: it may be the job's
/// mask, or
///   one that a launcher gave this rank. It is also ambiguous if `seen` has CPUs of some homes and none of
///   others.
/// - Otherwise the ranks need new homes.
/// docs/launch.md has the table.
Fit fit_of(const Plan& plan, int ranks, const Allowed& seen, const Allowed& of_job, const CpuSet& isolated);

/// Returns the launch of a rank that was started as `rank` says, checked against what is allowed now and what
/// the user has set. Throws Error(stale_plan) that names the difference if the home has CPUs or nodes that
/// are not allowed. Pure.
Launch launch_of(const ProcessBinding& fitted, const EnvNumber& rank, const LaunchRequest& request,
                 const Allowed& allowed, const Environment& environment);

/// Returns the environment variables for the command and the runtime inside it: one rank of the plan at an
/// absolute path. OMP_NUM_THREADS is the right one for the CPUs of process_cpus(). Throws as print_binding()
/// does.
std::map<std::string, std::string> variables_of(const ProcessBinding& binding,
                                                const std::filesystem::path& plan_path);

/// Binds this process, reads the binding back, and sets the memory policy and the variables. Throws
/// Error(runtime_error) if the binding did not take effect; with `force` adds a note instead. A refused
/// memory policy is only a note, because first touch still places most pages well. Precondition: the process
/// has one thread.
void apply(Launch& launch, bool force);

/// Replaces this process by the command. Throws Error(not_found) or Error(cannot_execute) if that fails.
[[noreturn]] void exec_or_throw(const std::vector<std::string>& command);

/// Returns what apply() and exec_or_throw() would do, as lines that a shell can run.
std::string describe(const Launch& launch, const std::vector<std::string>& command);

}  // namespace zf
