// Who may have started this process as a rank: one table of launchers, and the variables that they set.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

namespace zf {

/// How a launcher's variables give the number of ranks that it has started on this node.
enum class CountRule {
  first_set,  ///< the first variable that is set has it
  quotient,   ///< the first has the ranks of all nodes, the second the nodes: the same number on each node
  per_node,   ///< the first lists the numbers of all nodes, such as "4(x2),1"; the second says which is ours
};

/// Variables of a launcher. Those that do not exist are null.
struct Launcher {
  const char* rank;                        ///< the local rank
  std::array<const char*, 2> counts = {};  ///< where CountRule looks
  CountRule rule = CountRule::first_set;
  std::array<const char*, 2> job = {};  ///< tell its rank from the same rank of another step or job
  const char* asked_count = nullptr;    ///< how many ranks the user asked for on each node
  const char* unbind = nullptr;         ///< how to start its ranks without masks of their own
  bool may_bind_each_rank = false;      ///< may give each rank a mask of its own, and no variable tells
  bool may_start_launchers = false;     ///< if it starts one process, that may be torchrun
};

/// Returns all launchers. The first with its rank set has started this process. Slurm comes last, because
/// everything that is started inside one of its tasks has the task's variables as well.
std::span<const Launcher> launchers();

/// Returns what messages call the count of a launcher if its rule is not first_set: its first variable, or
/// both, as in "FLUX_JOB_SIZE / FLUX_JOB_NNODES".
std::string count_name(const Launcher& launcher);

/// Returns the launcher that sets this variable, or has it as count_name(); null if there is none.
const Launcher* launcher_of(std::string_view variable);

}  // namespace zf
