// How many threads a command's math libraries are told to use: the user's number, or else the plan's. Pure.
#pragma once

#include <map>
#include <string>

#include "launch/launched_by.hpp"
#include "os/environment.hpp"

namespace zf {

/// torchrun sets OMP_NUM_THREADS=1 for several ranks if it is not set. What becomes of such a 1?
enum class TorchrunsOne {
  replaced,  ///< it counts as not set
  kept,      ///< it counts as the user's
};

struct ThreadCounts {
  std::map<std::string, std::string> set;  ///< those of kThreadVariables that must be set
  std::string note;                        ///< what the user should know, on one line; empty: nothing
  bool is_for_all_ranks = false;           ///< the note holds for all ranks of the node alike
};

/// Returns the numbers of threads for a process with `planned` in its plan. What the user has set for one of
/// kThreadVariables stays, and holds for those that are not set. If the user's numbers differ, the first one
/// holds for those that are not set. Without a number of the user's, all get the plan's. These do not count
/// as set by the user: an empty value, a 1 of torchrun (TORCHELASTIC_RUN_ID) if it is to be replaced, and the
/// number `by_outer_exec` that an outer zf-tune exec has set (empty: there is none).
ThreadCounts thread_counts(int planned, const std::string& by_outer_exec, TorchrunsOne torchruns_one,
                           const Environment& environment, LaunchedBy by = LaunchedBy::exec);

}  // namespace zf
