// Decides which pool member updates which part of every group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/slices.hpp"

namespace zf {

/// A group and the size of the chunks in which it is reported.
struct GroupCut {
  std::uint64_t elements;
  std::uint64_t chunk_elements;  ///< not 0, a multiple of kSliceGrain
};

/// Slices as [group][chunk][member]: each chunk of each group has one slice per member, in order. Together
/// they cover the group, and inner boundaries lie at multiples of kSliceGrain.
///
/// Each chunk is divided among all members, so that chunks are finished one after the other, from the first,
/// while the step runs. (With one slice per member over the whole group, all chunks would be finished only at
/// the end.)
/// The shares of a chunk differ by at most one grain, and so do the sums over all chunks. Grains that are
/// left over from a chunk go to the members after those that got the last ones. (Otherwise they would all go
/// to the first members: 16 groups of 4K elements would keep only 4 threads of 16 busy.)
/// A member's share does not depend on what is submitted together, so pages stay with the thread that first
/// touched them.
using GroupShares = std::vector<std::vector<Slice>>;
/// Returns the shares. Pure. Precondition: members >= 1.
std::vector<GroupShares> deal_shares(const std::vector<GroupCut>& groups, std::size_t members);

}  // namespace zf
