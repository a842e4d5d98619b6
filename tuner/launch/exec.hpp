// Binds this process by a plan and becomes the command: what `zf-tune exec` does, and what it would do.
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

/// Everything that will be done to this process before the command takes its place.
struct Launch {
  int rank = 0;
  std::string rank_source;                 ///< "--rank", "LOCAL_RANK", …; empty: no plan is obeyed
  CpuSet cpus;                             ///< to bind to; empty: leave the binding alone
  NodeSet mems;                            ///< to prefer; empty: leave the policy alone
  std::map<std::string, std::string> set;  ///< environment variables to set
  std::vector<std::string> notes;          ///< one line each: user's settings that win, what was dropped
};

struct LaunchRequest {
  std::filesystem::path plan_path;  ///< for ZF_PLAN; launch_of() wants it absolute
  std::optional<int> rank;          ///< --rank
  bool force = false;               ///< go on whatever is wrong, unbound at worst
  std::optional<int> ranks = {};    ///< on this node, where the caller knows
};

/// This process's local rank, and where that was found. Throws Error(usage) when nothing says it.
EnvNumber rank_of(const Plan& plan, const LaunchRequest& request, const Environment& environment);

/// How many ranks run on this node: of the request, else as the launcher says, else as many as the plan has.
int rank_count_of(const Plan& plan, const LaunchRequest& request, const Environment& environment);

/// Whether the plan holds as it is for a rank that is one of `ranks`. Each of them asks this for itself and
/// none hears the others' answers, so that one may keep its place only if all may: everything of all ranks is
/// allowed; or this rank's alone and nothing of any other's, as under a launcher that gives each rank its own
/// CPUs. Not where there are other ranks than the plan's, nor under a CPU quota that is not the plan's and
/// below its threads.
bool holds(const Plan& plan, int rank, int ranks, const Allowed& allowed);

/// Pure: the plan's entry for this rank, held against what is allowed now and what the user has set.
/// Throws Error(usage) when the rank is unknown or not in the plan, Error(stale_plan) that names the
/// difference when the rank has CPUs or nodes that are not allowed.
Launch launch_of(const Plan& plan, const LaunchRequest& request, const Allowed& allowed,
                 const Environment& environment);

/// What the command and the runtime inside it are told, for one rank of the plan at an absolute path.
std::map<std::string, std::string> variables_of(const RankBinding& binding,
                                                const std::filesystem::path& plan_path);

/// Binds, reads back, sets the policy and the variables. Throws Error(runtime_error) when the binding did not
/// take (with `force`: notes it). A refused memory policy is a note: first touch still places most pages.
/// Precondition: the process has one thread.
void apply(Launch& launch, bool force);

/// Replaces this process. Returns only on failure, having thrown Error(not_found) or Error(cannot_execute).
[[noreturn]] void become(const std::vector<std::string>& command);

/// What apply() and become() would do, as lines a shell could run.
std::string describe(const Launch& launch, const std::vector<std::string>& command);

}  // namespace zf
