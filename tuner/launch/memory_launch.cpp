#include "launch/memory_launch.hpp"

#include "base/cpu_list.hpp"
#include "base/format.hpp"
#include "plan/given_policy.hpp"

namespace zf {
namespace {

/// Writes the policy into the binding that the command is told, unless an outer zf-tune exec has done so.
/// `is_asked`: the user has said that it be kept.
void keep_in_binding(Launch& launch, const ThreadPolicy& given, bool is_asked, LaunchedBy by) {
  ProcessBinding& binding = *launch.binding;
  if (binding.kept == given) return;
  OptimizerSide& side = binding.rank.optimizer;
  const NodeSet planned = side.mems;
  side.mems = nodes_under(planned, given);
  binding.kept = given;
  launch.set[kBindingVariable] = print_binding(binding);
  const bool moved = (planned & side.mems).empty() && !planned.empty();
  if ((launch.rank != 0 || is_asked) && !moved) return;
  std::string where;
  if (moved) {
    where = format_text(", so memory of rank {}'s optimizer lies on {} and not on the plan's {}", launch.rank,
                        print_nodes(side.mems), print_nodes(planned));
  } else if (!side.mems.empty()) {
    where =
        format_text(", and memory of rank {}'s optimizer lies on {}", launch.rank, print_nodes(side.mems));
  }
  const std::string otherwise =
      by == LaunchedBy::bind ? "start the job without that policy to have the plan's"
                             : format_text("{} replaces it", option_in_words(by, "memory-policy", "plan"));
  launch.notes.push_back(format_text("the memory policy that was set before, {}, is kept{}; {}",
                                     in_words(given), where, otherwise));
}

}  // namespace

void settle_memory(Launch& launch, std::optional<MemoryChoice> choice,
                   const std::optional<ThreadPolicy>& given, LaunchedBy by) {
  if (launch.rank_source.empty() || choice == MemoryChoice::plan) return;
  if (!given && !choice) return;
  launch.mems = {};
  if (given && launch.binding) keep_in_binding(launch, *given, choice == MemoryChoice::keep, by);
}

}  // namespace zf
