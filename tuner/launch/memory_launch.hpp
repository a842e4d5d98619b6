// What becomes of a memory policy that others have set before a launch. Pure.
#pragma once

#include <optional>

#include "base/enum_names.hpp"
#include "launch/launch.hpp"
#include "launch/launched_by.hpp"

namespace zf {

/// Which memory policy does the command get?
enum class MemoryChoice {
  plan,  ///< the plan's preference
  keep,  ///< the one that this process has
};

template <>
inline constexpr auto kEnumNames<MemoryChoice> =
    std::to_array<EnumName<MemoryChoice>>({{MemoryChoice::plan, "plan"}, {MemoryChoice::keep, "keep"}});

/// Lets the launch keep the policy that others have set (policy_of_others()), and says so. Memory of the
/// optimizer then lies on the plan's nodes as far as the policy names them, and ZF_BINDING says it. One note
/// for all ranks of the node is enough, so rank 0 has it unless `keep` was asked for, and each rank that the
/// policy keeps from the plan's nodes. With `keep`, `given` is the policy that this process has. Without a
/// choice, the plan's preference counts where others have set none. Does nothing if no plan is in force.
void settle_memory(Launch& launch, std::optional<MemoryChoice> choice,
                   const std::optional<ThreadPolicy>& given, LaunchedBy by = LaunchedBy::exec);

}  // namespace zf
