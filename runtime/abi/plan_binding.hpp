// Which entry of which plan this process is to obey, and whether it can.
#pragma once

#include <cstdint>
#include <string>

#include "os/allowed.hpp"
#include "os/environment.hpp"
#include "plan/plan.hpp"

namespace zf {

struct BoundPlan {
  std::string path;  ///< for messages
  RankBinding binding;
  std::optional<std::string> foreign = {};  ///< how it is of another machine; absent: it may be of this one
};

/// ZF_TUNE=off: no plan, but the CPUs that the calling thread may use, shared with training. Else `plan_path`
/// may be null (ZF_PLAN), `rank` -1 (ZF_RANK and the launchers' variables; 0 if the plan has one
/// rank). Throws AbiError(ZF_ERROR_PLAN): no plan named, unreadable or broken; AbiError(ZF_ERROR_USAGE): no
/// rank, or one that the plan does not have.
BoundPlan find_binding(const char* plan_path, int rank, const Environment& environment);

/// What the optimizer may use here: everything but this process's own affinity mask, which under
/// `zf-tune exec` holds the training CPUs only. (The worker widens its own, and reads it back.)
Allowed allowed_to_optimizer();

/// Throws AbiError(ZF_ERROR_PLAN) that names the CPUs or nodes of the plan that are not there, or what else
/// makes this another machine than the plan's.
void check_binding(const BoundPlan& plan, const Allowed& allowed);

/// Throws AbiError(ZF_ERROR_SYSTEM) when an arena of this size cannot live here: beyond the job's memory
/// limit or the machine's free memory, where the kernel would kill instead of saying no.
void check_memory(std::uint64_t arena_bytes, const Allowed& allowed);

}  // namespace zf
