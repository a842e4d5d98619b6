// From a plan's path to what will be done to this process, on this machine and in this allocation.
#pragma once

#include "launch/exec.hpp"
#include "os/environment.hpp"

namespace zf {

/// Reads the plan at `request.plan_path`. Where it does not hold here (see holds()), or was made on a machine
/// of another class by what /proc and /sys say at a glance, it is fitted to what is allowed and to the ranks
/// that run here (retarget.hpp), held in memory, and notes say so and what that costs. Ranks that Slurm has
/// bound to CPUs of their own keep these and share them out between their two sides. With `request.force` a
/// plan of another class is fitted too, whatever else is wrong becomes a note, and the launch binds nothing.
/// Else throws as load_plan, retarget and launch_of do.
Launch launch_here(const LaunchRequest& request, const Environment& environment);

}  // namespace zf
