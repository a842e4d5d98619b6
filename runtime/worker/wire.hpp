// Between what lies in the arena (ipc) and what the engine calculates with. Pure.
#pragma once

#include <cstdint>

#include "engine/adam.hpp"
#include "engine/kernel.hpp"
#include "ipc/control_block.hpp"

namespace zf {

AdamSettings settings_of(const GroupRequest& request);
AdamProgress progress_of(const GroupProgress& wire);
GroupProgress wire_progress(const AdamProgress& progress);
KernelVariant variant_of(const GroupBlock& group, const AdamSettings& settings);
GradType grad_type_of(const GroupBlock& group);

/// The bytes of an array of the group that `elements` of it, from `begin` on, have.
ArrayPlace part_of(const ArrayPlace& array, const GroupBlock& group, std::uint64_t begin,
                   std::uint64_t elements);

}  // namespace zf
