// What an outer `zf-tune exec` has decided for this process.
#include "launch/launch_parts.hpp"

#include "base/error.hpp"
#include "plan/plan_json.hpp"
#include "plan/process_binding.hpp"

namespace zf {
namespace {

/// Gives the optimizer the plan's nodes again, where the outer zf-tune exec has kept another policy.
void forget_kept_policy(ProcessBinding& binding, const Plan& plan) {
  binding.kept.reset();
  for (const RankBinding& planned : plan.ranks) {
    if (planned.rank == binding.rank.rank && planned.home == binding.rank.home)
      binding.rank.optimizer.mems = planned.optimizer.mems;
  }
}

}  // namespace

std::optional<Launch> outer_launch(const Plan& plan, const LaunchRequest& request, const Allowed& allowed,
                                   const Environment& environment) {
  std::optional<ProcessBinding> binding;
  try {
    binding = own_binding(environment);
  } catch (const Error&) {
    return std::nullopt;  // a line of another version: the plan says it all
  }
  if (!binding || binding->started_on == StartedOn::nothing || binding->plan_id != plan_id(plan))
    return std::nullopt;
  if (request.cpus_of || (request.rank && *request.rank != binding->rank.rank)) return std::nullopt;
  const ProcessCpus process = process_cpus(binding->rank, binding->framework);
  if (!allowed.cpus.contains(process.cpus)) return std::nullopt;
  Launch launch;
  if (binding->kept && request.memory == MemoryChoice::plan) {
    forget_kept_policy(*binding, plan);
    launch.set[kBindingVariable] = print_binding(*binding);
  }
  launch.rank = binding->rank.rank;
  launch.rank_source = "an outer zf-tune exec";
  launch.cpus = process.cpus;
  launch.binding = binding;
  launch.mems = preferred_mems(binding->rank.optimizer) & allowed.mems;
  return launch;
}

}  // namespace zf
