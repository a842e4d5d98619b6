// Between what lies in the arena (ipc) and what the engine calculates with. Pure.
#pragma once

#include "engine/adam.hpp"
#include "engine/kernel.hpp"
#include "ipc/control_block.hpp"

namespace zf {

AdamSettings settings_of(const GroupRequest& request);
AdamProgress progress_of(const GroupProgress& wire);
GroupProgress wire_progress(const AdamProgress& progress);
KernelVariant variant_of(const GroupBlock& group, const AdamSettings& settings);

}  // namespace zf
