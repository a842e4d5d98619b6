// Turns a plan's path into the launch of this process, on this machine and in this allocation.
#pragma once

#include "launch/launch.hpp"
#include "launch/launch_request.hpp"
#include "os/environment.hpp"

namespace zf {

/// Returns the launch of this process by the plan at `request.plan_path`.
///
/// The rank gets the binding that the plan has for it if the plan fits as it is (see allocation_fit_of()).
/// Otherwise new homes are computed (retarget.hpp) from what is allowed and for the ranks that run here;
/// notes say what changed, and no file is written: the binding travels in ZF_BINDING. Ranks that Slurm bound
/// to CPUs of their own keep these CPUs and divide them between their two sides. An outer `zf-tune exec` of
/// the same plan and rank is obeyed. With `request.force` a plan of another class is fitted too; any other
/// error becomes a note, and then the launch binds nothing. Without it, throws as load_plan, launch_rank,
/// resolve_binding and planned_launch do. Whatever hinders it, a plan of another class is called that first.
Launch resolve_launch(const LaunchRequest& request, const Environment& environment);

}  // namespace zf
