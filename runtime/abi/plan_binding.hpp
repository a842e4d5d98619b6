// Finds the plan and the rank that this process must obey, and checks that they fit this machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "os/allowed.hpp"
#include "os/environment.hpp"
#include "plan/process_binding.hpp"
#include "plan/rank_binding.hpp"

namespace zf {

struct BoundPlan {
  std::string path;  ///< for messages: the plan's, or "ZF_BINDING"
  RankBinding binding;
  /// The part of the home that zf-tune exec started this process on, by ZF_BINDING. A plan file does not say
  /// that.
  StartedOn started_on = StartedOn::nothing;
  std::optional<std::string> foreign =
      {};  ///< how the plan differs from this machine; absent: it may have been made for it
};

/// Finds the plan and the rank. ZF_BINDING comes first if it is that of this process, and if the arguments
/// name no other file (than ZF_PLAN, by whatever path) and no other rank. Then no file is read: the plan file
/// may be gone. Also the class of the machine is not compared, because zf-tune exec did that. Otherwise: if
/// `plan_path` is null, ZF_PLAN names the plan. If `rank` is -1, ZF_RANK or a launcher's variable gives it; a
/// plan with one rank needs none. With ZF_TUNE=off no plan is read, and the optimizer shares the CPUs of the
/// calling thread with training. Throws AbiError(ZF_ERROR_PLAN) if no plan is named or if it is unreadable or
/// broken, and if ZF_BINDING is malformed. Throws AbiError(ZF_ERROR_USAGE) if the rank is not known or the
/// plan does not have it.
BoundPlan find_binding(const char* plan_path, int rank, const Environment& environment);

/// Does the same, but returns nothing with ZF_TUNE=off, and if neither the arguments nor the environment name
/// a plan.
std::optional<BoundPlan> find_binding_if_any(const char* plan_path, int rank, const Environment& environment);

/// Returns what the optimizer may use here. It ignores the affinity mask of this process, which under
/// `zf-tune exec` holds only the training CPUs. (The worker sets its own mask and reads it back.)
Allowed allowed_to_optimizer();

/// Throws AbiError(ZF_ERROR_PLAN) if CPUs or nodes of the plan are not available, or if the plan was made for
/// another class of machines. The text names the difference.
void check_binding(const BoundPlan& plan, const Allowed& allowed);

/// Throws AbiError(ZF_ERROR_SYSTEM) if an arena of this size exceeds the job's memory limit or the free
/// memory of the machine. The kernel would not refuse it but kill a process later.
void check_memory(std::uint64_t arena_bytes, const Allowed& allowed);

}  // namespace zf
