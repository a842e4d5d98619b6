// Which local rank this process is, and of how many, by the variables of what started it. Pure.
#pragma once

#include <optional>
#include <string>

#include "os/environment.hpp"

namespace zf {

/// Returns true in a batch script of Slurm. It has SLURM_LOCALID=0 like a task, but no step.
bool in_batch_script(const Environment& environment);

/// Returns the local rank of this process: ZF_RANK, else that of the first of launchers() with a variable
/// that is set and not empty. A batch script of Slurm has SLURM_LOCALID=0 without being a rank, so the
/// variable does not count where SLURM_JOB_ID is set and SLURM_STEP_ID is not. ZF_RANK is ignored if
/// ZF_RANK_FROM differs from launchers_rank(): then a launcher that was itself started under zf-tune exec has
/// started more ranks. Throws Error(usage) with the variable if its value is not a whole number of 0 or more.
std::optional<EnvNumber> local_rank(const Environment& environment);

/// Returns the variable that local_rank() uses without ZF_RANK, such as "LOCAL_RANK=3"; empty if none is set.
/// For Slurm and Flux, step and job are named too: "SLURM_LOCALID=0 SLURM_STEP_ID=2 SLURM_JOB_ID=4711".
/// Throws like local_rank().
std::string launchers_rank(const Environment& environment);

/// Returns how many ranks the launcher that set local_rank() has started on this node, by its CountRule.
/// - If LOCAL_RANK has no count of its own, it is the count of the other launcher with an equal rank,
///   provided that this launcher has started more than one; else WORLD_SIZE, if MASTER_ADDR is this node's
///   loopback and RANK is not another number.
/// - If zf-tune exec took ZF_RANK from a launcher (ZF_RANK_FROM), it is that launcher's count.
/// Returns nothing if the launcher does not say, if no launcher set a rank, or if the user set ZF_RANK.
/// Throws Error(usage) like local_rank(), if a count is malformed, and if the rank is not below the count.
std::optional<EnvNumber> launched_ranks(const Environment& environment);

/// Returns how many local ranks this node has, also outside the ranks: the count of the first of launchers()
/// that says one, where Slurm's is SLURM_NTASKS_PER_NODE; else the count of visible_devices() unless it is 0.
/// SLURM_TASKS_PER_NODE is not used: "4(x2),1" describes all nodes of a job, not this one. Throws
/// Error(usage) with the variable if a number is malformed.
std::optional<EnvNumber> local_rank_count(const Environment& environment,
                                          GpuRuntime runtime = GpuRuntime::cuda);

}  // namespace zf
