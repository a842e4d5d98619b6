// The process that asks for its home, and the launch that it would get by a plan.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "launch/launch.hpp"
#include "machine/machine.hpp"
#include "os/environment.hpp"
#include "plan/plan.hpp"
#include "where/where.hpp"

namespace zf {

/// The process that asks, and the node around it.
struct Asker {
  const WhereRequest& request;
  Environment environment;  ///< without the variables of ranks, and without those of zf-tune exec
  CpuSet seen;
  const Environment& with_ranks;
  Machine machine = {};  ///< with all GPUs, and all CPUs of the job
};

/// Throws Error(infeasible).
[[noreturn]] void refuse(const std::string& why);

/// Returns the variables without the lists of visible GPUs.
Environment without_lists(const Environment& environment);

/// Returns the variables without those of ranks, and those of a zf-tune exec. ZF_BINDING stays: it tells
/// whether exec has set the memory policy. Slurm's other variables also say which GPUs and CPUs a step has.
Environment without_ranks(const Environment& environment);

/// Reads the machine with the GPUs of this container, and which of them this process may open. `within`: the
/// CPUs that count; not a mask, which would be taken for the user's word that they are the job's own.
Machine read_with_gpus(const Environment& environment, std::optional<CpuSet> within = std::nullopt);

/// Returns the machine of a process that looks at files alone, as zf-tune exec does.
MachineSource source_of_files();

/// Returns the launch of a rank by a plan. `ranks`: how many run; absent: as many as the plan has.
Launch launch_by(const Asker& asker, const Plan& plan, const std::string& name, int rank,
                 std::optional<int> ranks, const Environment& environment);

/// Returns the home in a plan, which is at `path`.
Where by_plan(const Asker& asker, const std::string& path, const Plan& written);

/// Makes a plan for all GPUs of this node, and takes the homes of this process's, or its part of those that
/// its job has. If the job has the whole node, as it lists no GPUs, or if there are none, the plan is for its
/// ranks.
Where without_plan(const Asker& asker);

}  // namespace zf
