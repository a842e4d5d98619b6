// Checks a zf_group, and turns it into the types of the arena.
#pragma once

#include <cstddef>
#include <vector>

#include "ipc/arena_layout.hpp"
#include "zf_runtime.h"

namespace zf {

/// Returns the group in our version of the struct, with 1 for moment_sets 0 and 2 for
/// grad_buffers 0. Throws AbiError(ZF_ERROR_USAGE)
/// that names field and value, or AbiError(ZF_ERROR_ABI).
zf_group read_group(const zf_group* given, std::size_t index);

/// Reads all groups of zf_open, which lie given[0].struct_size bytes apart.
std::vector<zf_group> read_groups(const zf_group* given, std::size_t count);

/// Returns the arrays that a group needs.
GroupShape shape_of(const zf_group& group);

}  // namespace zf
