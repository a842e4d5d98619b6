// Turns a plan's path into the launch of this process, on this machine and in this allocation.
#pragma once

#include "launch/exec.hpp"
#include "os/environment.hpp"

namespace zf {

/// Reads the plan at `request.plan_path` and returns the launch of this process.
///
/// The plan is retargeted (retarget.hpp) to what is allowed and to the ranks that run here if it does not
/// apply unchanged (see plan_applies_to_rank()), or if /proc and /sys show a machine of another class. The
/// retargeted plan stays in memory, and notes say what changed. Ranks that Slurm bound to CPUs of their own
/// keep these CPUs and divide them between their two sides. With `request.force` a plan of another class is
/// retargeted too; any other error becomes a note, and then the launch binds nothing. Without it, throws as
/// load_plan, retarget and launch_of do.
Launch resolve_launch(const LaunchRequest& request, const Environment& environment);

}  // namespace zf
