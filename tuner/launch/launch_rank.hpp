// Which rank this process is, and how many ranks run on this node. Pure.
#pragma once

#include "launch/launch_request.hpp"
#include "os/environment.hpp"
#include "plan/plan.hpp"

namespace zf {

/// Returns this process's local rank and its source. Throws Error(usage) if the rank is unknown.
EnvNumber launch_rank(const Plan& plan, const LaunchRequest& request, const Environment& environment);

/// Returns how many ranks run on this node: the request's number, else the launcher's, else the plan's.
int launch_rank_count(const Plan& plan, const LaunchRequest& request, const Environment& environment);

}  // namespace zf
