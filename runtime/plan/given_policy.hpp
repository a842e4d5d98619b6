// The memory policy that a process has got from others (numactl, srun --mem-bind), which zf-tune keeps.
#pragma once

#include <optional>
#include <string>

#include "base/memory_policy.hpp"
#include "os/environment.hpp"
#include "plan/plan.hpp"

namespace zf {

/// Returns thread_memory_policy() of the calling thread, unless zf-tune exec or bind() has set it.
std::optional<ThreadPolicy> policy_of_others(const Environment& environment);

/// Returns true if the policy is the preference that a ZF_BINDING names, also that of another rank: policies
/// survive execve, as the variable does. A line that says that others' policy was kept names none. Pure.
bool is_named_by_binding(const ThreadPolicy& policy, const Environment& environment);

/// Returns the planned nodes that are also the policy's; if there are none, the policy's. Pure.
NodeSet nodes_under(const NodeSet& planned, const ThreadPolicy& policy);

/// Returns where the runtime puts memory of its own: on nodes_under(). Memory under `bind` may lie on all
/// nodes of the policy, and on no others, so that a full node ends no process: the pool's threads touch it
/// first, so it lies near them. Where the plan prefers no node, nothing is set, and the policy holds. Pure.
OptimizerSide side_under(OptimizerSide side, const ThreadPolicy& policy);

/// Returns the first rank of the plan that gets no memory on its preferred nodes, because the policy names
/// none of them; nothing if there is no such rank. Pure.
std::optional<int> rank_kept_away(const Plan& plan, const ThreadPolicy& policy);

/// Returns what zf-tune exec will do: "the memory policy bind on node 1 is set here, and zf-tune exec keeps
/// it: …".
std::string kept_in_words(const ThreadPolicy& policy, std::optional<int> rank_kept_away);

/// Returns "bind on nodes 0-1" or "local".
std::string in_words(const ThreadPolicy& policy);

}  // namespace zf
