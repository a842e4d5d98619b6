#include "abi/plan_binding.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "abi/status.hpp"
#include "base/cpu_list.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "launchers/local_rank.hpp"
#include "os/affinity.hpp"
#include "os/meminfo.hpp"
#include "os/same_file.hpp"
#include "os/sysroot.hpp"
#include "plan/given_policy.hpp"
#include "plan/plan_check.hpp"
#include "plan/plan_json.hpp"
#include "plan/resolve_rank.hpp"

namespace zf {
namespace {

std::string path_of(const char* plan_path, const Environment& environment) {
  if (plan_path != nullptr) return plan_path;
  if (const auto path = environment.get("ZF_PLAN"); path && !path->empty()) return *path;
  throw AbiError(ZF_ERROR_PLAN, "no plan: ZF_PLAN is not set",
                 "run under `zf-tune exec --plan plan.json`, or name a plan with zf_options.plan_path");
}

Plan load(const std::string& path) {
  try {
    return load_plan(path);
  } catch (const Error& error) {
    throw AbiError(ZF_ERROR_PLAN, error.what());
  }
}

/// Returns the binding without a plan: the CPUs of this process, and memory without a preference.
BoundPlan unplanned(int rank, const Environment& environment) {
  const auto found = rank < 0 ? local_rank(environment) : std::nullopt;
  RankBinding binding;
  binding.rank = found ? found->value : std::max(rank, 0);
  binding.training.cpus = binding.optimizer.cpus = thread_affinity();
  binding.shared = true;
  return {.path = "ZF_TUNE=off", .binding = binding};
}

/// Returns the binding that zf-tune exec left in the environment, unless the arguments name another plan or
/// rank. zf-tune exec makes the path in ZF_PLAN absolute, and a program may name the same file by another
/// path.
std::optional<BoundPlan> bound_by_exec(const char* plan_path, int rank, const Environment& environment) {
  if (plan_path != nullptr && !same_file(plan_path, environment.get("ZF_PLAN").value_or("")))
    return std::nullopt;
  local_rank(environment);  // throws if the rank's variable is malformed, which is not ZF_BINDING's fault
  try {
    const auto own = own_binding(environment);
    if (!own || (rank >= 0 && rank != own->rank.rank)) return std::nullopt;
    return BoundPlan{.path = kBindingVariable, .binding = own->rank, .started_on = own->started_on};
  } catch (const Error& error) {
    throw AbiError(ZF_ERROR_PLAN, error.what());
  }
}

/// Returns the binding with memory where a memory policy that others have set allows it.
BoundPlan under_given_policy(BoundPlan plan, const Environment& environment) {
  if (const auto given = policy_of_others(environment))
    plan.binding.optimizer = side_under(plan.binding.optimizer, *given);
  return plan;
}

/// Returns what to do if a plan names CPUs or nodes that are not available.
std::string next_step(const BoundPlan& plan) {
  if (plan.path == kBindingVariable)
    return "the allocation has changed since the process was started: start it again under zf-tune exec";
  return format_text(
      "it was made for another machine or allocation: `zf-tune plan --from {}` makes one for this",
      plan.path);
}

/// Returns `rank` unless it is -1, else resolve_rank(). Throws AbiError(ZF_ERROR_USAGE) if that is unknown.
int rank_of_plan(const Plan& plan, const std::string& path, int rank, const Environment& environment) {
  if (rank >= 0) return rank;
  if (const auto found = resolve_rank(plan.ranks.size(), environment)) return found->value;
  throw AbiError(ZF_ERROR_USAGE,
                 format_text("{} has {} ranks, and it is not known which of them this process is", path,
                             plan.ranks.size()),
                 "set ZF_RANK, or zf_options.rank");
}

std::string excluded_text(const Allowed& allowed, const CpuSet& missing) {
  for (const Exclusion& exclusion : allowed.exclusions) {
    if (exclusion.cpus.contains(missing)) return format_text(": {}", exclusion.detail);
  }
  return format_text(" (available: {})", print(allowed.cpus));
}

}  // namespace

BoundPlan find_binding(const char* plan_path, int rank, const Environment& environment) {
  if (switched_off(environment)) return unplanned(rank, environment);
  if (auto bound = bound_by_exec(plan_path, rank, environment))
    return under_given_policy(*std::move(bound), environment);
  BoundPlan found;
  found.path = path_of(plan_path, environment);
  const Plan plan = load(found.path);
  found.foreign = foreign_machine(plan.machine, read_machine_identity(SysRoot()));
  found.binding = binding_of(plan, rank_of_plan(plan, found.path, rank, environment));
  return under_given_policy(std::move(found), environment);
}

std::optional<BoundPlan> find_binding_if_any(const char* plan_path, int rank,
                                             const Environment& environment) {
  if (switched_off(environment)) return std::nullopt;
  const bool is_named = plan_path != nullptr || !environment.get("ZF_PLAN").value_or("").empty();
  if (is_named) return find_binding(plan_path, rank, environment);
  auto bound = bound_by_exec(plan_path, rank, environment);
  return bound ? std::optional(under_given_policy(*std::move(bound), environment)) : std::nullopt;
}

Allowed allowed_to_optimizer() {
  AllowedInputs inputs = read_allowed_inputs(SysRoot());
  inputs.affinity.reset();
  return allowed_from(inputs);
}

void check_binding(const BoundPlan& plan, const Allowed& allowed) {
  const OptimizerSide& optimizer = plan.binding.optimizer;
  const std::string next = next_step(plan);
  if (const CpuSet missing = optimizer.cpus - allowed.cpus; !missing.empty()) {
    throw AbiError(
        ZF_ERROR_PLAN,
        format_text("{}: {} of rank {}'s optimizer {} not available here{}", plan.path, print_cpus(missing),
                    plan.binding.rank, missing.size() == 1 ? "is" : "are", excluded_text(allowed, missing)),
        next);
  }
  // If the nodes could not be read, they cannot be checked.
  const NodeSet missing = allowed.mems.empty() ? NodeSet() : optimizer.mems - allowed.mems;
  if (!missing.empty()) {
    throw AbiError(ZF_ERROR_PLAN,
                   format_text("{}: memory {} of rank {}'s optimizer {} not available here (available: {})",
                               plan.path, print_nodes(missing), plan.binding.rank,
                               missing.size() == 1 ? "is" : "are", print(allowed.mems)),
                   next);
  }
  if (plan.foreign) {
    throw AbiError(
        ZF_ERROR_PLAN,
        format_text("{}: the plan was made on a machine of another class: {}", plan.path, *plan.foreign),
        "make a plan here with zf-tune, or start under `zf-tune exec --force`, which fits it");
  }
}

void check_memory(std::uint64_t arena_bytes, const Allowed& allowed) {
  constexpr const char* next = "give the job more memory, or fewer parameters per rank";
  if (allowed.memory_bytes && arena_bytes > *allowed.memory_bytes) {
    throw AbiError(
        ZF_ERROR_SYSTEM,
        format_text("the arena needs {}, and the job's memory limit is {} ({})", print_bytes(arena_bytes),
                    print_bytes(*allowed.memory_bytes), allowed.memory_path),
        next);
  }
  const std::string text = SysRoot().read("/proc/meminfo").value_or("");
  const auto available = meminfo_bytes(text, "MemAvailable");
  if (available && arena_bytes > *available + meminfo_bytes(text, "SwapFree").value_or(0)) {
    throw AbiError(ZF_ERROR_SYSTEM,
                   format_text("the arena needs {}, and the machine has {} left (/proc/meminfo)",
                               print_bytes(arena_bytes), print_bytes(*available)),
                   next);
  }
}

}  // namespace zf
