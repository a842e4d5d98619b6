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

namespace zf {

/// What to do to this process before the command replaces it.
struct Launch {
  int rank = 0;
  std::string rank_source;                 ///< "--rank", "LOCAL_RANK", …; empty: no plan is in force
  CpuSet cpus;                             ///< the CPUs to bind to; empty: keep the binding
  NodeSet mems;                            ///< the nodes to prefer; empty: keep the policy
  std::map<std::string, std::string> set;  ///< environment variables to set
  std::vector<std::string> notes;  ///< one line each: the user's settings that are kept, what was dropped
};

struct LaunchRequest {
  std::filesystem::path plan_path;  ///< for ZF_PLAN; launch_of() needs an absolute path
  std::optional<int> rank;          ///< --rank
  bool force = false;               ///< continue in spite of errors, unbound if necessary
  std::optional<int> ranks = {};    ///< on this node, if the caller knows
};

/// Returns this process's local rank and its source. Throws Error(usage) if the rank is unknown.
EnvNumber resolve_rank(const Plan& plan, const LaunchRequest& request, const Environment& environment);

/// Returns how many ranks run on this node: the request's number, else the launcher's, else the plan's.
int resolve_rank_count(const Plan& plan, const LaunchRequest& request, const Environment& environment);

/// True if the plan applies unchanged to this rank, one of `ranks` on this node. Each rank decides alone, and
/// all must reach the same answer: a rank keeps its binding only if every rank can. So the plan applies in
/// two cases. Either the CPUs and nodes of all ranks are allowed; or those of this rank are allowed and no
/// CPU of any other rank is, as under a launcher that gives each rank its own CPUs. The plan never applies if
/// the number of ranks differs, or if a CPU quota that is not the plan's covers fewer CPUs than the plan runs
/// threads.
bool plan_applies_to_rank(const Plan& plan, int rank, int ranks, const Allowed& allowed);

/// Returns the launch of this rank by the plan's entry, checked against what is allowed now and what the user
/// has set. Throws Error(usage) if the rank is unknown or not in the plan, and Error(stale_plan) that names
/// the difference if the rank has CPUs or nodes that are not allowed. Pure.
Launch launch_of(const Plan& plan, const LaunchRequest& request, const Allowed& allowed,
                 const Environment& environment);

/// Returns the environment variables for the command and the runtime inside it: one rank of the plan at an
/// absolute path.
std::map<std::string, std::string> variables_of(const RankBinding& binding,
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
