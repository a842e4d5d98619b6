// A launch: what is changed in this process before the command replaces it, as a value. Pure.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/id_set.hpp"
#include "launch/thread_counts.hpp"
#include "os/allowed.hpp"
#include "os/environment.hpp"
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
  std::vector<std::string> unset = {};     ///< environment variables to take out
  /// The user's settings that are kept, what was dropped. Parts of the plan are in them as they are: print
  /// each with one_line().
  std::vector<std::string> notes;
};

/// Returns the launch of a rank that was started as `rank` says, by its binding in the plan at an absolute
/// path. Keeps the numbers of threads that the user has set, as thread_counts() does. Throws
/// Error(stale_plan) that names the difference if the home has CPUs or nodes that are not allowed. What notes
/// and errors tell to do is what that launcher has.
Launch planned_launch(const ProcessBinding& binding, const EnvNumber& rank,
                      const std::filesystem::path& plan_path, const Allowed& allowed,
                      const Environment& environment, TorchrunsOne torchruns_one = TorchrunsOne::replaced,
                      LaunchedBy by = LaunchedBy::exec);

/// Returns a launch that binds nothing, with a note that says why.
Launch unbound_launch(const Error& error);

/// Returns what apply_launch() and exec_or_throw() would do, as lines that a shell can run.
std::string describe(const Launch& launch, const std::vector<std::string>& command);

}  // namespace zf
