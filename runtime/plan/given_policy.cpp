#include "plan/given_policy.hpp"

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "os/memory.hpp"
#include "plan/process_binding.hpp"

namespace zf {

std::optional<ThreadPolicy> policy_of_others(const Environment& environment) {
  const auto policy = thread_memory_policy();
  return policy && is_named_by_binding(*policy, environment) ? std::nullopt : policy;
}

bool is_named_by_binding(const ThreadPolicy& policy, const Environment& environment) {
  if (policy.policy != GivenPolicy::preferred) return false;
  try {
    const ProcessBinding binding = parse_binding(environment.get(kBindingVariable).value_or(""));
    const NodeSet named = preferred_mems(binding.rank.optimizer);
    if (binding.kept || named.empty()) return false;
    return policy.nodes == named ||
           policy.nodes == NodeSet{named.first()};  // kernels before 5.15 take one node
  } catch (const Error&) {                          // there is none, or it is of another version
    return false;
  }
}

NodeSet nodes_under(const NodeSet& planned, const ThreadPolicy& policy) {
  if (policy.nodes.empty()) return planned;
  const NodeSet both = planned & policy.nodes;
  return both.empty() ? policy.nodes : both;
}

OptimizerSide side_under(OptimizerSide side, const ThreadPolicy& policy) {
  if (side.memory_policy == MemoryPolicy::none) {
    side.mems = {};
  } else if (policy.policy == GivenPolicy::bind && side.memory_policy == MemoryPolicy::preferred) {
    side.mems = policy.nodes;
    side.memory_policy = MemoryPolicy::bind;
  } else {
    side.mems = nodes_under(side.mems, policy);
  }
  return side;
}

std::optional<int> rank_kept_away(const Plan& plan, const ThreadPolicy& policy) {
  for (const RankBinding& rank : plan.ranks) {
    const NodeSet planned = preferred_mems(rank.optimizer);
    if (!planned.empty() && (planned & nodes_under(planned, policy)).empty()) return rank.rank;
  }
  return std::nullopt;
}

std::string kept_in_words(const ThreadPolicy& policy, std::optional<int> rank_kept_away) {
  std::string text =
      format_text("the memory policy {} is set here, and zf-tune exec keeps it", in_words(policy));
  if (rank_kept_away) text += format_text(": rank {} gets no memory on the plan's nodes", *rank_kept_away);
  return text;
}

std::string in_words(const ThreadPolicy& policy) {
  const std::string name = name_of(policy.policy);
  return policy.nodes.empty() ? name : format_text("{} on {}", name, print_nodes(policy.nodes));
}

}  // namespace zf
