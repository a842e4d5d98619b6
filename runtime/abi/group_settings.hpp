// What a zf_group may say, checked, and in the arena's words.
#pragma once

#include <cstddef>
#include <vector>

#include "ipc/arena_layout.hpp"
#include "zf_runtime.h"

namespace zf {

/// The group in our version of the struct. Throws AbiError(ZF_ERROR_USAGE) that names field and value, and
/// AbiError(ZF_ERROR_ABI).
zf_group read_group(const zf_group* given, std::size_t index);

/// All groups of zf_open, each given[0].struct_size after the one before.
std::vector<zf_group> read_groups(const zf_group* given, std::size_t count);

GroupShape shape_of(const zf_group& group);

/// The settings of a step that is submitted now.
AdamSettings settings_of(const zf_group& group, float grad_scale);

/// Throws AbiError(ZF_ERROR_USAGE) when `changed` asks for another layout.
void check_same_shape(const zf_group& group, const zf_group& changed, std::size_t index);

}  // namespace zf
