// From a plan's path to what will be done to this process, on this machine and in this allocation.
#pragma once

#include "os/environment.hpp"
#include "tuner/exec.hpp"

namespace zf {

/// Reads the plan at `request.plan_path`. Where it does not fit this rank here, it is fitted to what is
/// allowed (retarget.hpp), held in memory, and a note says so. With `request.force` whatever is wrong becomes
/// a note, and the launch binds nothing at worst. Else throws as load_plan, retarget and launch_of do.
Launch launch_here(const LaunchRequest& request, const Environment& environment);

}  // namespace zf
