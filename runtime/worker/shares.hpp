// Which pool member updates which part of every group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/slices.hpp"

namespace zf {

/// For each group one slice per member, in order, covering [0, elements); inner boundaries at kSliceGrain.
/// Every group is equal within one grain, and so is the sum over all groups: where a group does not divide,
/// the grains left over go on where those of the group before ended. (With slices_of per group they would
/// all go to the first members: 16 groups of 4K elements would keep 4 threads of 16 busy.)
/// A fixed share per member, whatever is submitted together, keeps pages with the thread that first touched
/// them. Pure. Precondition: members >= 1.
std::vector<std::vector<Slice>> shares_of(const std::vector<std::uint64_t>& elements, std::size_t members);

}  // namespace zf
