// What an outer `zf-tune exec` has decided for this process, by its ZF_BINDING. Pure.
#pragma once

#include <optional>

#include "launch/launch.hpp"
#include "launch/launch_request.hpp"
#include "os/allowed.hpp"
#include "os/environment.hpp"
#include "plan/plan.hpp"

namespace zf {

/// Returns the launch that an outer zf-tune exec has prepared for this rank by the same plan; nothing if
/// there is none, if the plan has changed since, or if it does not fit here any more.
std::optional<Launch> outer_launch(const Plan& plan, const LaunchRequest& request, const Allowed& allowed,
                                   const Environment& environment);

}  // namespace zf
