// What becomes of a memory policy that others have set before a launch. Pure.
#pragma once

#include <optional>

#include "launch/launch.hpp"
#include "launch/launched_by.hpp"

namespace zf {

/// Which memory policy does the command get?
enum class MemoryChoice {
  unsaid,  ///< the one that others have set; without one, the plan's preference
  plan,    ///< the plan's preference
  keep,    ///< the one that this process has
};

/// Lets the launch keep the policy that others have set (policy_of_others()), and says so. Memory of the
/// optimizer then lies on the plan's nodes as far as the policy names them, and ZF_BINDING says it. One note
/// for all ranks of the node is enough, so rank 0 has it unless `keep` was asked for, and each rank that the
/// policy keeps from the plan's nodes. With `keep`, `given` is the policy that this process has. Does nothing
/// if no plan is in force.
void settle_memory(Launch& launch, MemoryChoice choice, const std::optional<ThreadPolicy>& given,
                   LaunchedBy by = LaunchedBy::exec);

}  // namespace zf
